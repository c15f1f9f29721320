//! Options, results and errors, conversions.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::error::Error;
use std::rc::Rc;
use std::sync::Mutex;

use crate::things::*;

everyday! {
    fn options_chained()
    -> (Option<usize>, usize, Option<i32>, Result<i32, String>, Option<char>, Option<(i32, &'static str)>) {
        let table = HashMap::from([("one", 1), ("two", 2)]);
        let word = Some("  two ").map(str::trim).filter(|word| !word.is_empty());
        let twice = word.and_then(|word| table.get(word)).copied().map(|n| n * 2);
        (
            word.map(|word| word.len()),
            None::<&str>.map_or(7, |word| word.len()),
            twice.xor(None).or(Some(0)),
            table.get("three").cloned().ok_or_else(|| "no three".to_string()),
            word.unwrap_or_default().chars().nth(1),
            Some(3).zip(word),
        )
    }

    fn options_in_place() -> (Option<u32>, u32, Option<u32>, Option<String>, Vec<Option<u8>>) {
        let mut slot = Some(3);
        let taken = slot.take();
        let made = *slot.get_or_insert_with(|| 9);
        let before = slot.replace(made + 1);
        let mut name = None;
        name.insert(String::from("ad")).push('a');
        if let Some(name) = name.as_mut() {
            name.make_ascii_uppercase();
        }
        let transposed: Result<Option<u8>, ()> = Some(Ok(4)).transpose();
        (taken, made, before, name.as_deref().map(str::to_owned), vec![transposed.unwrap(), None, Some(1)])
    }

    fn results_chained() -> (Result<i32, String>, i32, Option<i32>, bool, Result<u8, String>, i32) {
        let good: Result<i32, String> = "21".parse::<i32>().map(|n| n * 2).map_err(|error| error.to_string());
        let bad = "x".parse::<i32>().or_else(|error| if error.to_string().is_empty() { Ok(1) } else { Err(error) });
        let narrowed = good.clone().and_then(|n| u8::try_from(n).map_err(|error| error.to_string()));
        (
            good.clone(),
            bad.clone().unwrap_or(-1),
            good.as_ref().ok().copied(),
            bad.is_err_and(|error| error.to_string().contains("invalid")),
            narrowed,
            good.map_or_else(|error| error.len() as i32, |n| n - 2),
        )
    }

    fn custom_errors() -> Vec<String> {
        let table: HashMap<String, String> =
            [("port", "80"), ("level", "x"), ("big", "1000")].map(|(name, value)| (name.into(), value.into())).into();
        let mut told = Vec::new();
        for name in ["port", "level", "big", "gone"] {
            told.push(match lookup(&table, name) {
                Ok(value) => value.to_string(),
                Err(error @ ConfigError::Number(_)) => format!("{error} ({})", error.source().is_some()),
                Err(error) => error.to_string(),
            });
        }
        told
    }

    fn boxed_errors() -> (Result<f64, String>, Result<f64, String>, Result<f64, String>) {
        fn ratio(text: &str) -> Result<f64, Box<dyn Error>> {
            let (left, right) = text.split_once('/').ok_or("no slash")?;
            let right: f64 = right.parse()?;
            if right == 0.0 {
                return Err(format!("{left} by nothing").into());
            }
            Ok(left.parse::<f64>()? / right)
        }
        let told = |text| ratio(text).map_err(|error| error.to_string());
        (told("3/4"), told("3"), told("3/0"))
    }

    fn question_marks() -> Result<(u32, Vec<i32>), Box<dyn Error>> {
        let total = "1,2,3".split(',').map(|n| n.parse::<u32>()).sum::<Result<u32, _>>()?;
        let mut numbers = Vec::new();
        for part in "4;5".split(';') {
            numbers.push(part.parse()?);
        }
        let point: Point = "1.5, 2".parse()?;
        numbers.push(point.length() as i32);
        let last = numbers.last().ok_or("empty")?.checked_mul(2).ok_or_else(|| Box::<dyn Error>::from("too large"))?;
        numbers.push(last);
        Ok((total, numbers))
    }

    fn early_returns() -> Result<u32, ConfigError> {
        let attempt = || -> Result<u32, ConfigError> {
            let n: u32 = "7".parse()?;
            if n > 5 {
                return Err(ConfigError::OutOfRange { name: "n".into(), value: n.into() });
            }
            Ok(n)
        };
        for _ in 0..3 {
            if let Err(ConfigError::OutOfRange { value, .. }) = attempt() {
                return Ok(value.unsigned_abs().try_into().unwrap_or(u32::MAX));
            }
        }
        Err(ConfigError::Missing("n"))
    }

    fn try_blocks_by_closure() -> (Option<i32>, Option<i32>, Result<i32, std::num::ParseIntError>) {
        let first_plus_last = |values: &[i32]| (|| Some(values.first()? + values.last()?))();
        let parsed = (|| {
            let a: i32 = "20".parse()?;
            let b: i32 = "22".parse()?;
            Ok(a + b)
        })();
        (first_plus_last(&[1, 2, 3]), first_plus_last(&[]), parsed)
    }

    fn conversions() -> (i64, u8, Result<u8, String>, String, Option<u32>, f32, char) {
        let wide = i64::from(7_i32) + i64::from(true);
        let wrapped = 300_i32 as u8;
        let narrowed: Result<u8, _> = 300_i32.try_into().map_err(|error: std::num::TryFromIntError| error.to_string());
        let even: Result<Even, _> = 4.try_into();
        (
            wide,
            wrapped,
            narrowed,
            String::from_utf8_lossy(&[104, 105]).into_owned(),
            even.ok().map(|even| even.0),
            3_u8.into(),
            65_u8.into(),
        )
    }

    fn borrowed_or_owned() -> (Vec<bool>, String, usize) {
        let kinds = ["a b", "ab"].map(without_spaces).iter().map(|text| matches!(text, Cow::Owned(_))).collect();
        let mut text = without_spaces("a b");
        text.to_mut().push('c');
        let borrowed: Cow<'_, [i32]> = Cow::from(&[1, 2][..]);
        (kinds, text.into_owned(), borrowed.len())
    }

    fn as_references() -> (usize, usize, String) {
        fn length(text: impl AsRef<str>) -> usize {
            text.as_ref().len()
        }
        fn total<T: AsRef<[u8]> + ?Sized>(bytes: &T) -> usize {
            bytes.as_ref().iter().map(|byte| usize::from(*byte)).sum()
        }
        let path = std::path::Path::new("/tmp").join("a.txt");
        (length("abc") + length(String::from("de")), total("az") + total(&[1, 2]), path.display().to_string())
    }

    fn dereferencing() -> (usize, Vec<i32>, Option<i32>, i32) {
        let mut stack = Stack::default().with(1).with(2);
        stack.push(3);
        let sum: i32 = stack.iter().sum();
        let copy: Stack<_> = stack.iter().map(|n| n * n).collect();
        (stack.len(), copy.into_iter().collect(), stack.last().copied(), sum + *Box::new(4) + **Rc::new(&5))
    }

    fn references_expected() -> (f64, usize, usize, i32) {
        fn length(point: &Point) -> f64 {
            point.length()
        }
        fn shift(point: &mut Point) {
            point.x += 1.0;
        }
        fn count(values: &[u8]) -> usize {
            values.len()
        }
        fn make(x: f64) -> Box<Point> {
            Box::new(Point::new(x, 4.0))
        }
        let shared = RefCell::new(Point::new(6.0, 8.0));
        let held = Mutex::new(vec![1, 2, 3]);
        let mut numbers = vec![1, 2];
        let last: &mut i32 = numbers.last_mut().unwrap();
        *last += 5;
        let sum = length(&make(3.0)) + length(&shared.borrow());
        shift(&mut shared.borrow_mut());
        let sum = sum + length(&shared.borrow());
        let length = count(&held.lock().unwrap());
        (sum, length, count(&held.lock().unwrap().clone()), *numbers.iter().max().unwrap())
    }

    fn defaults_and_updates() -> (Settings, Settings, bool, (u8, String, Option<char>)) {
        let base = Settings { name: "base".to_string(), ..Settings::default() };
        let built = Settings::named("built").retries(3).tag("x").tag(&base.name);
        let mixed = Settings { verbose: !base.verbose, tags: vec![built.name.clone()], ..base.clone() };
        (built, mixed, base == Settings::named("base"), Default::default())
    }
}
