//! Sharing, guards, threads, drop order and the order of evaluation.

use std::cell::{Cell, RefCell};
use std::mem;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, OnceLock, RwLock, mpsc};

use crate::things::*;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

static GREETING: OnceLock<String> = OnceLock::new();

everyday! {
    fn two_phase_borrows() -> (Vec<usize>, String, Vec<i32>) {
        let mut lengths = vec![7];
        lengths.push(lengths.len());
        lengths.insert(lengths.len(), lengths[0] + lengths.iter().sum::<usize>());
        let mut text = String::from("ab");
        text.push_str(&text.clone());
        text.truncate(text.len() - 1);
        let mut values = vec![1, 2, 3];
        let end = values.len() - 1;
        values[end] += values[0] + *values.first().unwrap();
        values.resize(values.len() + 1, values[1]);
        (lengths, text, values)
    }

    fn shared_and_mutable() -> (Vec<i32>, usize, i32, bool) {
        let shared = Rc::new(RefCell::new(vec![1]));
        let other = Rc::clone(&shared);
        other.borrow_mut().push(2);
        let length = shared.borrow().len();
        shared.borrow_mut().push(length as i32);
        let cell = Cell::new(5);
        cell.set(cell.get() + cell.replace(1));
        let busy = {
            let _held = shared.borrow();
            shared.try_borrow_mut().is_err()
        };
        let values = shared.borrow().clone();
        (values, Rc::strong_count(&shared), cell.take(), busy)
    }

    fn trees() -> (Vec<String>, u32, Option<String>) {
        let root = Node::new("root");
        root.children.borrow_mut().extend(["left", "right"].map(Node::new));
        root.children.borrow()[0].children.borrow_mut().push(Node::new("leaf"));
        let mut waiting = vec![Rc::clone(&root)];
        let mut seen = Vec::new();
        while let Some(node) = waiting.pop() {
            seen.push(node.visit().to_string());
            waiting.extend(node.children.borrow().iter().rev().cloned());
        }
        let weak: Weak<Node> = Rc::downgrade(&root);
        root.visit();
        let visits = weak.upgrade().map_or(0, |node| node.visits.get());
        drop((root, waiting));
        (seen, visits, weak.upgrade().map(|node| node.name.clone()))
    }

    fn guards() -> (u32, Vec<u32>, bool, String) {
        let counter = Arc::new(Mutex::new(1_u32));
        *counter.lock().unwrap() += 4;
        let doubled = {
            let mut count = counter.lock().unwrap();
            *count = count.wrapping_mul(2);
            *count
        };
        let table = RwLock::new(vec![doubled]);
        table.write().unwrap().push(doubled.pow(2));
        let read = table.read().unwrap();
        let locked = table.try_write().is_err();
        let values = read.iter().copied().collect();
        drop(read);
        (
            Arc::into_inner(counter).unwrap().into_inner().unwrap(),
            values,
            locked,
            GREETING.get_or_init(|| "hi".into()).clone(),
        )
    }

    fn threads_and_channels() -> (Vec<i32>, Result<i32, bool>, i32) {
        let (sender, receiver) = mpsc::channel();
        let threads: Vec<_> = (0..3)
            .map(|n| {
                let sender = sender.clone();
                std::thread::spawn(move || sender.send(n * n).unwrap())
            })
            .collect();
        drop(sender);
        for thread in threads {
            thread.join().unwrap();
        }
        let mut values: Vec<_> = receiver.iter().collect();
        values.sort_unstable();
        let mut sum = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| sum += values.iter().sum::<i32>());
        });
        (values, receiver.try_recv().map_err(|error| error == mpsc::TryRecvError::Disconnected), sum)
    }

    fn thread_locals() -> (u32, u32) {
        let before = DEPTH.get();
        DEPTH.set(before + 1);
        let inside = DEPTH.with(|depth| depth.get());
        DEPTH.with(|depth| depth.set(depth.get() - 1));
        (inside - before, DEPTH.take())
    }

    fn memory() -> (String, Vec<i32>, Option<u8>, usize, (i32, i32)) {
        let mut name = String::from("before");
        let old = mem::replace(&mut name, "after".to_string());
        let mut values = vec![1, 2];
        let taken = mem::take(&mut values);
        values.extend(taken.iter().rev());
        let (mut a, mut b) = (1, 2);
        mem::swap(&mut a, &mut b);
        let mut slot = Some(4);
        (old + &name, values, mem::take(&mut slot), mem::size_of_val(&[0_u32; 3]), (a, b))
    }

    fn unsafe_blocks() -> (u32, u8, usize) {
        let values = [1_u32, 2, 3];
        // SAFETY: the array has three values.
        let last = unsafe { *values.as_ptr().add(values.len() - 1) };
        // SAFETY: it is ASCII.
        let text = unsafe { std::str::from_utf8_unchecked(b"abc") };
        // SAFETY: a byte is a bool's size, and 1 is true.
        let flag = unsafe { mem::transmute::<u8, bool>(1) };
        let pointer: *const u8 = text.as_ptr().cast();
        // SAFETY: it points to the text's first byte.
        (last, unsafe { pointer.read() } + u8::from(flag), std::ptr::null::<u8>() as usize)
    }

    fn drop_order_of_locals() -> Vec<String> {
        let journal = RefCell::new(Vec::new());
        {
            let _first = noisy("first", &journal);
            let _second = noisy("second", &journal);
            let _ = noisy("ignored", &journal);
            let moved = noisy("moved", &journal);
            drop(moved);
            let list = vec![noisy("a", &journal), noisy("b", &journal)];
            let [_, kept] = <[Noisy; 2]>::try_from(list).ok().unwrap();
            journal.borrow_mut().push(format!("end with {}", kept.name()));
        }
        journal.into_inner()
    }

    fn drop_order_of_temporaries() -> Vec<String> {
        let journal = RefCell::new(Vec::new());
        let length = noisy("in let", &journal).touch().name().len();
        journal.borrow_mut().push(format!("after let {length}"));
        match noisy("scrutinee", &journal).touch().name().len() {
            9 => journal.borrow_mut().push("in match".to_string()),
            _ => fail("nine letters"),
        }
        if noisy("condition", &journal).touch().name().is_empty() {
            fail("it has a name");
        }
        journal.borrow_mut().push("after if".to_string());
        if let Some(first) = noisy("if let", &journal).name().chars().next() {
            journal.borrow_mut().push(first.to_string());
        } else {
            fail("it has a name");
        }
        let extended = &noisy("extended", &journal);
        let held = Some(&noisy("held", &journal)).map(|noisy| noisy.name().len());
        for letter in noisy("ab", &journal).name().chars() {
            journal.borrow_mut().push(letter.into());
        }
        let _ = noisy("left", &journal).name().cmp(noisy("right", &journal).touch().name());
        journal.borrow_mut().push(format!("end {} {held:?}", extended.name()));
        let told = journal.borrow().clone();
        told
    }

    fn drop_order_on_the_way_out() -> (Vec<String>, Result<u32, String>) {
        fn leave<'a>(journal: &'a RefCell<Vec<String>>, text: &str) -> Result<u32, std::num::ParseIntError> {
            let _outer = noisy("outer", journal);
            for _ in 0..2 {
                let _turn = noisy("turn", journal);
                let n: u32 = text.parse()?;
                if n > 1 {
                    break;
                }
                let _late = noisy("late", journal);
            }
            Ok(7)
        }
        let journal = RefCell::new(Vec::new());
        let mut told = Err(String::new());
        for text in ["2", "x", "1"] {
            told = leave(&journal, text).map_err(|error| error.to_string());
        }
        let _unused = journal.borrow().len();
        (journal.take(), told)
    }

    fn evaluation_order() -> (Vec<&'static str>, i32) {
        let journal = RefCell::new(Vec::new());
        let step = |name: &'static str, value: i32| {
            journal.borrow_mut().push(name);
            value
        };
        let sum = |a: i32, b: i32, c: i32| a * 100 + b * 10 + c;
        let mut cells = [0; 3];
        cells[step("index", 1) as usize] = step("value", 5);
        cells[step("index", 2) as usize] += step("value", 2);
        let total = sum(step("a", 1), step("b", 2) + step("c", 3), {
            step("d", 4);
            step("e", 5)
        });
        let short = step("left", 0) == 1 && step("never", 1) == 1 || step("right", 1) == 1;
        let point = Point { y: f64::from(step("y", 1)), x: f64::from(step("x", 2)) };
        let range = step("from", 0)..step("to", 3);
        let list = [step("first", 1), step("second", 2)];
        let text = format!("{1}{0}", step("argument", 1), step("another", 2));
        assert_eq!(text, "21");
        let last = total + cells.iter().sum::<i32>() + i32::from(short) + range.len() as i32 + list[1] + point.x as i32;
        (journal.into_inner(), last)
    }
}
