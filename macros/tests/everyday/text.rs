//! Strings, characters, formatting, reading and writing, numbers.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{BufRead, Cursor, Read, Write as _};
use std::time::Duration;

use crate::things::*;

everyday! {
    fn strings() -> (String, Vec<String>, Option<&'static str>, String, usize, String) {
        let text = "  Hello, World! ";
        let trimmed = text.trim().to_lowercase();
        let words = trimmed.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        let words: Vec<_> = words.map(String::from).collect();
        let mut title = String::with_capacity(16);
        for word in &words {
            let mut characters = word.chars();
            if let Some(first) = characters.next() {
                title.extend(first.to_uppercase());
                title.push_str(characters.as_str());
            }
        }
        title.insert(0, '<');
        title += ">";
        let swapped = text.chars().map(|c| if c.is_uppercase() { '^' } else { c }).collect();
        (trimmed, words, text.trim_start().strip_prefix("Hello"), title, text.matches('l').count(), swapped)
    }

    fn unicode() -> (usize, usize, Vec<char>, Option<usize>, Vec<u8>, String) {
        let text = "grüße, 世界";
        let mut bytes = [0; 4];
        let encoded = 'ß'.encode_utf8(&mut bytes).as_bytes().to_vec();
        let escaped = text.escape_unicode().to_string().chars().take(12).collect();
        (text.len(), text.chars().count(), text.chars().rev().take(3).collect(), text.find('世'), encoded, escaped)
    }

    fn characters() -> (Option<u32>, char, Vec<char>, bool, u32, Option<char>, usize) {
        (
            'f'.to_digit(16),
            'q'.to_ascii_uppercase(),
            'ß'.to_uppercase().chain('A'.to_lowercase()).collect(),
            'é'.is_alphabetic() && !'9'.is_alphabetic() && ' '.is_whitespace(),
            u32::from('a') + 'b' as u32,
            char::from_digit(7, 10).and_then(|digit| char::from_u32(digit as u32 + 1)),
            '界'.len_utf8(),
        )
    }

    fn formatting() -> Vec<String> {
        let (name, width, pi) = ("ada", 8, std::f64::consts::PI);
        let point = Point::new(1.0, -2.5);
        vec![
            format!("{name:>width$}|{name:<6}|{name:^7}|{name:*^9}"),
            format!("{pi:.2} {pi:8.3} {:+} {:#x} {:08b} {:e}", 5, 255, 5, 1500.0),
            format!("{0} {1} {0} {last}", name.len(), name.to_uppercase(), last = name.chars().last().unwrap()),
            format!("{point} {point:.1} {:?} {:#?}", Some(point), (1, "a")),
            format!("{{{}}} {:?} {:5}|{:<5}|", name, "quote\"d\n", true, 'x'),
            format!("{:>1$} {2:.*}", name.len(), width, pi),
        ]
    }

    fn writing_to_strings() -> Result<String, std::fmt::Error> {
        let mut out = String::new();
        for (index, name) in ["a", "b"].iter().enumerate() {
            write!(out, "{}:{} ", index.wrapping_add(1), name.to_uppercase())?;
        }
        writeln!(out, "{}", out.len())?;
        let length = out.len();
        write!(&mut out, "{:?}", [length, "abc".lines().map(str::len).sum::<usize>()])?;
        Ok(out)
    }

    fn reading_and_writing() -> std::io::Result<(Vec<String>, Vec<u8>, String)> {
        let mut input = Cursor::new("first\nsecond\n\nlast");
        let mut line = String::new();
        let mut lines = Vec::new();
        while input.read_line(&mut line)? > 0 {
            lines.push(line.trim_end().to_owned());
            line.clear();
        }
        input.set_position(2);
        let mut head = [0; 3];
        input.read_exact(&mut head)?;
        let mut out = Vec::new();
        out.write_all(&head)?;
        writeln!(out, " {}", lines.len())?;
        let missing = input.read_exact(&mut [0; 99]).unwrap_err();
        Ok((lines, out, missing.kind().to_string()))
    }

    fn pipelines() -> Vec<(String, usize)> {
        let log = "GET /a 200\nGET /b 404\nPOST /a 200\nbroken\nGET /a 500";
        let mut hits = HashMap::new();
        for line in log.lines() {
            let mut fields = line.split_ascii_whitespace();
            let (Some(_verb), Some(path), Some(Ok(status))) =
                (fields.next(), fields.next(), fields.next().map(str::parse::<u16>))
            else {
                continue;
            };
            if (200..300).contains(&status) || status == 404 {
                *hits.entry(path.trim_start_matches('/').to_owned()).or_insert(0_usize) += usize::from(status / 100);
            }
        }
        let mut hits: Vec<_> = hits.into_iter().collect();
        hits.sort_by(|(a, _), (b, _)| b.cmp(a));
        hits
    }

    fn integers() -> (Option<u8>, u8, (i32, bool), u8, i32, Vec<u32>, String, u32) {
        (
            200_u8.checked_add(100),
            200_u8.saturating_add(100),
            i32::MAX.overflowing_add(1),
            250_u8.wrapping_add(10),
            (-7_i32).rem_euclid(3) + -7 / 2,
            vec![40_u32.leading_zeros(), 40_u32.trailing_zeros(), 10_u32.pow(3).ilog10(), 17_u32.isqrt()],
            u64::from_str_radix("ff", 16).map_or_else(|error| error.to_string(), |n| format!("{n:o}")),
            u32::from_be_bytes([0, 0, 1, 2]).swap_bytes().rotate_left(8),
        )
    }

    fn floats() -> (f64, f64, f64, bool, Option<Ordering>, i32) {
        let angle = 60.0_f64.to_radians();
        (
            angle.cos().mul_add(2.0, 1.0).round(),
            2.0_f64.powi(10).sqrt().floor(),
            f64::from(7_u8).rem_euclid(2.5),
            (0.1_f64 + 0.2 - 0.3).abs() < f64::EPSILON && f64::NAN.max(1.0).is_finite(),
            f64::NAN.partial_cmp(&1.0),
            (-3.99_f64).trunc() as i32 + 1e20 as i32 / 2,
        )
    }

    fn durations() -> (u128, Duration, Option<Duration>, f64, String) {
        let total: Duration = [1500, 250].map(Duration::from_millis).iter().sum();
        let left = Duration::from_secs(1).checked_sub(total);
        (total.as_micros(), total.saturating_mul(2) / 7, left, total.as_secs_f64(), format!("{total:.1?}"))
    }
}
