//! `#[wo::fiber]` on functions of every kind, wherever they stand.

use std::cell::RefCell;
use std::error::Error;
use std::fmt::{Debug, Display};
use std::ops::Add;
use std::pin::Pin;
use std::rc::Rc;

/// Runs a program whose main fiber is `body`.
fn run<B: wo::IntoFiber>(body: B) -> B::Output {
    wo::Builder::new().run(body).expect("the program runs")
}

/// Parks once, and gives the value.
#[wo::fiber]
fn parked<T>(value: T) -> T {
    wo::yield_now().expect("nothing cancels it");
    value
}

#[test]
fn a_call_that_parks_gives_its_value() {
    #[wo::fiber]
    fn add(a: u32, b: u32) -> u32 {
        parked(a) + parked(b)
    }
    #[wo::fiber]
    fn nothing() {
        parked(());
    }
    #[wo::fiber]
    fn body() -> (u32, u32) {
        nothing();
        let chained = parked(Some(3)).map(|n| n + 1).unwrap_or_default();
        (add(1, add(2, 3)), chained)
    }
    assert_eq!(run(body()), (6, 4));
}

#[test]
fn a_call_may_park_wherever_an_expression_stands() {
    struct Pair {
        left: u32,
        right: u32,
    }
    #[wo::fiber]
    fn body() -> (Vec<u32>, String, u32) {
        let mut list = vec![parked(1), 2];
        list.push(parked(3) + if parked(true) { 10 } else { 0 });
        list[parked(0_usize)] += parked(5);
        list.extend(vec![parked(7); parked(2)]);
        let [first, ..] = parked([8, 9]);
        list.push(match parked(first) {
            n if parked(n) == 9 => 0,
            n => n,
        });
        let Some(n) = parked(Some(4)) else { return (list, String::new(), 0) };
        let text = format!("{} {n} {two}", parked("one"), two = parked(2));
        assert!(matches!(parked(Some(n)), Some(m) if parked(m) == n), "{}", parked("four"));
        assert_eq!(parked(n), 4, "{}", parked("four"));
        let Pair { left, right } = Pair { left: parked(1), ..parked(Pair { left: 0, right: 2 }) };
        let mut total = *parked(&n) + !parked(!left) + (parked(right) as u8 as u32);
        while parked(total) < 10 && parked(true) {
            total += (parked(0)..parked(3)).len() as u32;
        }
        if let Some(more) = parked(Some(1))
            && parked(more) == 1
        {
            total += 'found: {
                if parked(true) {
                    break 'found parked(100);
                }
                0
            };
        }
        for n in parked([1, 2]) {
            total += parked(n);
        }
        (list, text, total)
    }
    assert_eq!(run(body()), (vec![6, 2, 13, 7, 7, 8], "one 4 2".to_string(), 113));
}

#[test]
fn methods_take_every_receiver() {
    #[derive(Debug, PartialEq)]
    struct Counter(u32);
    impl Counter {
        #[wo::fiber]
        fn starting(at: u32) -> Self {
            Self(parked(at))
        }
        #[wo::fiber]
        fn get(&self) -> u32 {
            parked(self.0)
        }
        #[wo::fiber]
        fn add(&mut self, n: u32) -> &mut Self {
            self.0 += parked(n);
            self
        }
        #[wo::fiber]
        fn doubled(mut self) -> Self {
            self.0 *= parked(2);
            self
        }
        #[wo::fiber]
        fn into_inner(self) -> u32 {
            parked(self.0)
        }
        #[wo::fiber]
        fn shared(self: Rc<Self>) -> (u32, usize) {
            (parked(self.0), Rc::strong_count(&self))
        }
        #[wo::fiber]
        fn pinned(self: Pin<&mut Self>) -> u32 {
            parked(self.0)
        }
    }
    #[wo::fiber]
    fn body() -> (u32, (u32, usize), u32, u32) {
        let mut counter = Counter::starting(3);
        let step = counter_step(&counter);
        counter.add(1).add(step);
        let pinned = Pin::new(&mut counter).pinned();
        let counter = counter.doubled();
        (counter.get(), Rc::new(Counter(7)).shared(), pinned, counter.into_inner())
    }
    fn counter_step(counter: &Counter) -> u32 {
        counter.0 - 3
    }
    assert_eq!(run(body()), (8, (7, 1), 4, 8));
}

#[test]
fn traits_declare_provide_and_implement_them() {
    trait Source {
        type Item: Display;
        const NAME: &'static str;

        #[wo::fiber]
        fn open(name: &str) -> Self
        where
            Self: Sized;

        #[wo::fiber]
        fn next(&mut self) -> Option<Self::Item>;

        #[wo::fiber]
        fn all(&mut self) -> String {
            let mut text = Self::NAME.to_string();
            while let Some(item) = self.next() {
                text += &format!(" {item}");
            }
            text
        }
    }

    struct Letters(String);
    impl Source for Letters {
        type Item = char;
        const NAME: &'static str = "letters";

        #[wo::fiber]
        fn open(name: &str) -> Self {
            Letters(parked(name).chars().rev().collect())
        }
        #[wo::fiber]
        fn next(&mut self) -> Option<char> {
            parked(self.0.pop())
        }
    }

    struct Countdown(u8);
    impl Source for Countdown {
        type Item = u8;
        const NAME: &'static str = "numbers";

        #[wo::fiber]
        fn open(name: &str) -> Self {
            Countdown(name.len() as u8)
        }
        #[wo::fiber]
        fn next(&mut self) -> Option<u8> {
            self.0 = parked(self.0).checked_sub(1)?;
            Some(self.0)
        }
        #[wo::fiber]
        fn all(&mut self) -> String {
            format!("{} left", self.0)
        }
    }

    #[wo::fiber]
    fn first<S: Source>(name: &str) -> Option<S::Item> {
        S::open(name).next()
    }
    #[wo::fiber]
    fn every(source: &mut impl Source) -> String {
        source.all()
    }
    #[wo::fiber]
    fn body() -> (Option<char>, Option<u8>, String, String) {
        let mut letters = Letters::open("abc");
        (first::<Letters>("xyz"), first::<Countdown>("xyz"), every(&mut letters), every(&mut Countdown(3)))
    }
    assert_eq!(run(body()), (Some('x'), Some(2), "letters a b c".into(), "3 left".into()));
}

#[test]
fn generic_functions_of_every_sort() {
    #[wo::fiber]
    fn total<T: Add<Output = T> + Default>(values: impl IntoIterator<Item = T>) -> T {
        let mut sum = T::default();
        for value in values {
            sum = sum + parked(value);
        }
        sum
    }
    #[wo::fiber]
    fn filled<const N: usize, T>(value: T) -> [T; N]
    where
        T: Copy,
    {
        [parked(value); N]
    }
    #[wo::fiber]
    fn longer<'a>(a: &'a str, b: &'a str, _unrelated: &str) -> &'a str {
        if parked(a).len() >= b.len() { a } else { b }
    }
    #[wo::fiber]
    fn first_word(text: &str) -> &str {
        parked(text.split(' ').next().unwrap_or(text))
    }
    #[wo::fiber]
    fn show<'a, T, I>(values: I) -> Vec<String>
    where
        T: Debug + 'a,
        I: Iterator<Item = &'a T>,
    {
        let mut shown = Vec::new();
        for value in values {
            shown.push(parked(format!("{value:?}")));
        }
        shown
    }
    #[wo::fiber]
    fn apply<A, B, F: Fn(A) -> B>(function: F, value: A) -> B {
        function(parked(value))
    }
    #[wo::fiber]
    fn body() -> (u32, f64, [char; 3], String, Vec<String>, usize) {
        let mut text = String::from("a longer text");
        let word = longer(first_word(&text), "b", &String::from("gone")).to_string();
        text.clear();
        (
            total([1, 2, 3]),
            total(vec![0.5]),
            filled('x'),
            word,
            show([Some(1)].iter()),
            apply(|text: &str| text.len(), "four"),
        )
    }
    assert_eq!(run(body()), (6, 0.5, ['x'; 3], "a".into(), vec!["Some(1)".into()], 4));
}

#[test]
fn generic_types_have_them_too() {
    struct Wrapper<'a, T, const N: usize> {
        values: &'a mut [T; N],
    }
    impl<'a, T: Clone, const N: usize> Wrapper<'a, T, N> {
        #[wo::fiber]
        fn replace(&mut self, index: usize, value: T) -> Option<T> {
            let slot = self.values.get_mut(index)?;
            Some(std::mem::replace(slot, parked(value)))
        }
        #[wo::fiber]
        fn get(self, index: usize) -> &'a T {
            parked(&self.values[index % N])
        }
    }
    #[wo::fiber]
    fn body() -> (Option<u8>, Option<u8>, u8) {
        let mut values = [1, 2, 3];
        let mut wrapper = Wrapper { values: &mut values };
        (wrapper.replace(1, 9), wrapper.replace(5, 9), *wrapper.get(4))
    }
    assert_eq!(run(body()), (Some(2), None, 9));
}

#[test]
fn what_they_return_converts_as_in_a_function() {
    #[wo::fiber]
    fn shown(early: bool) -> Box<dyn Debug> {
        if early {
            return Box::new(1);
        }
        Box::new(parked("late"))
    }
    #[wo::fiber]
    fn parsed(text: &str) -> Result<u32, Box<dyn Error>> {
        if text.is_empty() {
            Err("nothing")?;
        }
        let n: u32 = parked(text).parse()?;
        if n > 9 {
            return Err(format!("{n} is large").into());
        }
        Ok(n)
    }
    #[wo::fiber]
    fn digits(n: u32) -> impl Iterator<Item = u32> {
        let text = parked(n).to_string();
        text.chars().filter_map(|c| c.to_digit(10)).collect::<Vec<_>>().into_iter()
    }
    #[wo::fiber]
    fn checked(text: &str) -> Result<impl Iterator<Item = u32> + use<>, Box<dyn Error>> {
        let n: u32 = text.parse()?;
        if n == 0 {
            return Err("nothing".into());
        }
        Ok(digits(n))
    }
    #[wo::fiber]
    fn slice(values: &[u8; 4]) -> &[u8] {
        parked(values)
    }
    #[wo::fiber]
    fn function(negative: bool) -> fn(i32) -> i32 {
        if parked(negative) { |n| -n } else { i32::abs }
    }
    #[wo::fiber]
    fn give_up(why: &str) -> ! {
        parked(());
        panic!("gave up: {why}")
    }
    #[wo::fiber]
    fn positive(n: i32) -> u32 {
        match u32::try_from(n) {
            Ok(n) => n,
            Err(_) => give_up("negative"),
        }
    }
    #[wo::fiber]
    fn body() -> Vec<String> {
        let told = |parsed: Result<u32, Box<dyn Error>>| parsed.map_err(|error| error.to_string());
        vec![
            format!("{:?} {:?}", shown(true), shown(false)),
            format!("{:?} {:?} {:?}", told(parsed("5")), told(parsed("")), told(parsed("12"))),
            format!("{} {}", digits(123).sum::<u32>(), slice(&[1, 2, 3, 4]).len()),
            format!("{} {}", function(true)(5), function(false)(-6)),
            format!("{} {:?}", positive(5), checked("45").map(|digits| digits.count()).ok()),
            format!("{} {}", checked("0").err().unwrap(), checked("x").is_err()),
        ]
    }
    let expected =
        ["1 \"late\"", "Ok(5) Err(\"nothing\") Err(\"12 is large\")", "6 4", "-5 6", "5 Some(2)", "nothing true"];
    assert_eq!(run(body()), expected);
}

#[test]
fn recursion_is_boxed_by_itself() {
    #[wo::fiber]
    fn fibonacci(n: u32) -> u64 {
        if parked(n) < 2 { n.into() } else { fibonacci(n - 1) + fibonacci(n - 2) }
    }
    #[wo::fiber]
    fn depth(n: u32) -> u32 {
        if n == 0 { 0 } else { 1 + depth(n - 1) }
    }
    #[wo::fiber]
    fn spread(n: u32) -> u32 {
        let Some(less) = n.checked_sub(1) else { return 1 };
        let other = wo::spawn(|| spread(less));
        spread(less) + other.join().unwrap()
    }
    #[wo::fiber]
    fn permutations<T: Clone>(values: &[T]) -> Vec<Vec<T>> {
        if values.is_empty() {
            return vec![vec![]];
        }
        let mut all = Vec::new();
        for (index, first) in values.iter().enumerate() {
            let rest = [&values[..index], &values[index + 1..]].concat();
            for mut permutation in permutations(&rest) {
                permutation.insert(0, first.clone());
                all.push(permutation);
            }
        }
        all
    }
    #[wo::fiber]
    fn body() -> (u64, u32, u32, usize) {
        (fibonacci(10), depth(2_000), spread(5), permutations(&['a', 'b', 'c', 'd']).len())
    }
    assert_eq!(run(body()), (55, 2_000, 32, 24));
}

#[test]
fn methods_recurse_too() {
    struct Tree {
        value: u32,
        children: Vec<Tree>,
    }
    impl Tree {
        #[wo::fiber]
        fn total(&self) -> u32 {
            let mut total = parked(self.value);
            for child in &self.children {
                total += child.total();
            }
            total
        }
        #[wo::fiber]
        fn grow(&mut self, levels: u32) {
            if let Some(levels) = levels.checked_sub(1) {
                self.children.push(Tree { value: levels, children: vec![] });
                Self::grow(&mut self.children[0], levels);
            }
        }
        #[wo::fiber]
        fn countdown(mut self) -> u32 {
            if self.value == 0 {
                return 100;
            }
            self.value -= parked(1);
            self.countdown()
        }
    }
    trait Height {
        #[wo::fiber]
        fn height(&self) -> usize;
    }
    impl Height for Tree {
        #[wo::fiber]
        fn height(&self) -> usize {
            let mut highest = 0;
            for child in &self.children {
                highest = highest.max(child.height());
            }
            highest + parked(1)
        }
    }
    impl<H: Height> Height for Box<H> {
        #[wo::fiber]
        fn height(&self) -> usize {
            (**self).height()
        }
    }
    #[wo::fiber]
    fn body() -> (u32, usize, u32) {
        let mut tree = Tree { value: 10, children: vec![] };
        tree.grow(3);
        let total = tree.total();
        let tree = Box::new(tree);
        (total, tree.height(), tree.countdown())
    }
    assert_eq!(run(body()), (13, 4, 100));
}

#[test]
fn a_ring_of_functions_has_a_boxed_one() {
    #[wo::fiber(boxed)]
    fn is_even(n: u32) -> bool {
        n == 0 || is_odd(parked(n) - 1)
    }
    #[wo::fiber]
    fn is_odd(n: u32) -> bool {
        n != 0 && is_even(n - 1)
    }
    trait Visit {
        #[wo::fiber(boxed)]
        fn enter(&mut self, level: u32) -> u32 {
            self.leave(level)
        }
        #[wo::fiber]
        fn leave(&mut self, level: u32) -> u32 {
            if level == 0 { 0 } else { 1 + self.enter(parked(level) - 1) }
        }
    }
    impl Visit for () {}
    #[wo::fiber]
    fn body() -> (bool, bool, u32) {
        (is_even(100), is_odd(100), ().enter(50))
    }
    assert_eq!(run(body()), (true, false, 50));
}

#[test]
fn parameters_of_every_form_live_as_long_as_the_call() {
    struct Noisy(&'static str, Rc<RefCell<Vec<&'static str>>>);
    impl Drop for Noisy {
        fn drop(&mut self) {
            self.1.borrow_mut().push(self.0);
        }
    }
    type Journal = Rc<RefCell<Vec<&'static str>>>;
    struct Both(Noisy, #[expect(dead_code, reason = "it is there to be dropped")] Noisy);

    macro_rules! both_ways {
        ($(#[$fiber:meta])?) => {
            $(#[$fiber])?
            fn used(mut first: Noisy, Both(second, _): Both, _: Noisy, _: Noisy, last @ Noisy(..): Noisy) -> usize {
                first.0 = "renamed";
                let _local = Noisy("local", first.1.clone());
                second.1.borrow_mut().push("body");
                last.1.borrow().len()
            }
            struct Owner(#[expect(dead_code, reason = "it is there to be dropped")] Noisy, Noisy);
            impl Owner {
                $(#[$fiber])?
                fn consume(self, _other: Noisy) {
                    self.1.1.borrow_mut().push("body");
                }
                $(#[$fiber])?
                fn ignore(self, _: Noisy) {}
            }
        };
    }

    let plain = Journal::default();
    {
        both_ways!();
        let noisy = |name| Noisy(name, plain.clone());
        used(noisy("1"), Both(noisy("2a"), noisy("2b")), noisy("3"), noisy("4"), noisy("5"));
        Owner(noisy("a"), noisy("b")).consume(noisy("c"));
        Owner(noisy("d"), noisy("e")).ignore(noisy("f"));
    }

    let fiber = Journal::default();
    both_ways!(#[wo::fiber]);
    let noisy = |name| Noisy(name, fiber.clone());
    let used = used(noisy("1"), Both(noisy("2a"), noisy("2b")), noisy("3"), noisy("4"), noisy("5"));
    let consumed = Owner(noisy("a"), noisy("b")).consume(noisy("c"));
    let ignored = Owner(noisy("d"), noisy("e")).ignore(noisy("f"));
    assert!(fiber.borrow().is_empty(), "nothing is dropped before it runs: {fiber:?}");
    run(|| async {
        used.await;
        consumed.await;
        ignored.await;
    });
    assert_eq!(fiber, plain);

    fiber.borrow_mut().clear();
    drop(Owner(noisy("a"), noisy("b")).ignore(noisy("c")));
    assert_eq!(fiber.borrow().len(), 3, "a call that never ran drops them all: {fiber:?}");
}

#[test]
fn unsafe_functions_and_attributes_stay() {
    /// Gives the first of several.
    ///
    /// # Safety
    ///
    /// There is one.
    #[wo::fiber]
    #[inline]
    unsafe fn first(values: *const u32) -> u32 {
        #![expect(unused_variables, reason = "an attribute may stand inside, too")]
        let unused = 5;
        // SAFETY: the caller says there is one.
        parked(unsafe { values.read() })
    }
    #[wo::fiber]
    fn body() -> u32 {
        let values = [5, 6];
        // SAFETY: there are two.
        unsafe { first(values.as_ptr()) }
    }
    assert_eq!(run(body()), 5);
}

#[test]
fn functions_made_by_macros() {
    macro_rules! getters {
        ($($name:ident: $output:ty = $value:expr;)*) => {
            $(
                #[wo::fiber]
                fn $name(suffix: &str) -> ($output, String) {
                    let value: $output = parked($value);
                    (value, format!("{value}{suffix}"))
                }
            )*
        };
    }
    getters! {
        number: u32 = parked(2) + 3;
        text: &'static str = if parked(true) { "yes" } else { "no" };
    }
    macro_rules! diverging {
        ($name:ident -> $output:ty $body:block) => {
            #[wo::fiber]
            fn $name() -> $output $body
        };
    }
    diverging!(never -> ! { panic!("it is called") });
    #[wo::fiber]
    fn body() -> ((u32, String), (&'static str, String)) {
        if parked(false) {
            never();
        }
        (number("!"), text("?"))
    }
    assert_eq!(run(body()), ((5, "5!".into()), ("yes", "yes?".into())));
}
