//! Closures, traits, generics, operators, constants.

use std::collections::HashMap;
use std::mem;
use std::rc::Rc;

use crate::things::*;

everyday! {
    fn closures() -> (i32, Vec<i32>, u32, String, i32) {
        let mut total = 0;
        let mut add = |n| total += n;
        add(3);
        add(4);
        let scale = 10;
        let scaled = |n: &i32| n * scale;
        let scaled = [1, 2].iter().map(scaled).collect();
        let mut count = counter();
        count();
        count();
        let shout = compose(|text: &str| text.to_uppercase(), |text| text + "!");
        let table: [fn(i32) -> i32; 2] = [|n| n + 1, i32::abs];
        (total, scaled, count(), shout("hey"), table.iter().fold(-5, |n, step| step(n)))
    }

    fn boxed_closures() -> Vec<i32> {
        let mut steps: Vec<Box<dyn Fn(i32) -> i32>> = vec![Box::new(|n| n + 1)];
        let factor = 3;
        steps.push(Box::new(move |n| n * factor));
        let named: Box<dyn Fn(&str) -> usize> = Box::new(|text| text.len());
        let length = named("four") as i32;
        steps.push(Box::new(move |n| n - length));
        let mut table: HashMap<&str, Rc<dyn Fn(i32, i32) -> i32>> = HashMap::new();
        table.insert("add", Rc::new(|a, b| a + b));
        table.insert("power", Rc::new(|a, b| a.pow(b as u32)));
        let mut values: Vec<_> = steps.iter().map(|step| step(10)).collect();
        values.push(table["power"](2, 5));
        values.push((table["add"])(1, 2));
        values
    }

    fn trait_objects() -> (Vec<String>, u32, String) {
        let animals = menagerie();
        let names = animals.iter().map(|animal| animal.name()).collect();
        let legs = animals.iter().map(|animal| animal.legs()).sum();
        let fewest: &dyn Animal = animals.iter().min_by_key(|animal| animal.legs()).unwrap().as_ref();
        (names, legs, fewest.name())
    }

    fn generics() -> (Option<i32>, Option<f64>, Option<char>, usize, Vec<String>) {
        fn sizes<T, const N: usize>(_: &[T; N]) -> usize {
            mem::size_of::<T>() * N
        }
        fn shown<T>(values: impl IntoIterator<Item = T>) -> Vec<String>
        where
            T: ToString,
        {
            values.into_iter().map(|value| value.to_string()).collect()
        }
        (largest(&[3, 9, 2]), largest(&[0.5, -1.0]), largest(&[]), sizes(&[0_u16; 5]), shown([1.5, 2.0]))
    }

    fn operators() -> (Point, String, Flags, bool, i32) {
        let mut at = Point::new(1.0, 1.0) + (2.0, 3.0).into();
        at += -Point::new(0.5, 0.5) * 2.0;
        let there = at - Point::default();
        let mut matrix = Matrix([[1, 2, 3], [4, 5, 6]]);
        matrix[(0, 1)] += matrix[(1, 2)];
        (there, there.to_string(), !Flags(0b1010), there > Point::default(), matrix.transposed()[(1, 0)])
    }

    fn const_generics() -> (Matrix<3, 2>, [usize; 4], usize) {
        const SIDE: usize = 4;
        let squares: [usize; SIDE] = std::array::from_fn(|index| index * index);
        let matrix = Matrix([[1, 2, 3], [4, 5, 6]]).transposed();
        let zeroes = [[0_u8; SIDE]; SIDE.pow(2) / 2];
        (matrix, squares, zeroes.len() * zeroes[0].len())
    }

    fn const_blocks() -> (u32, [Option<String>; 2], usize) {
        const LIMIT: u32 = u32::pow(2, 10);
        static NAMES: [&str; 2] = ["a", "bc"];
        let empty = [const { None::<String> }; 2];
        let folded = const { LIMIT.count_ones() + 1 };
        (folded, empty, NAMES.iter().map(|name| name.len()).sum())
    }

    fn phantom_types() -> (Quantity<Metre>, bool) {
        let way = Quantity::<Metre>::of(5) + Quantity::of(7);
        (way, way == Quantity::of(12) && way.clone() >= Quantity::of(3))
    }

    fn nested_functions_and_items() -> (u64, &'static str, usize) {
        const NAMES: &[&str] = &["zero", "one", "two"];
        fn gcd(a: u64, b: u64) -> u64 {
            if b == 0 { a } else { gcd(b, a % b) }
        }
        struct Pair<'a>(&'a str, &'a str);
        impl Pair<'_> {
            fn total(&self) -> usize {
                self.0.len() + self.1.len()
            }
        }
        use std::convert::identity as same;
        (gcd(48, 36), NAMES.get(same(2)).copied().unwrap_or("many"), Pair("a", "bc").total())
    }
}
