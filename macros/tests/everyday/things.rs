//! Types, traits and plain functions that the everyday functions use.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::iter::Sum;
use std::marker::PhantomData;
use std::num::ParseIntError;
use std::ops::{Add, AddAssign, Deref, DerefMut, Index, IndexMut, Mul, Neg, Not, Sub};
use std::rc::Rc;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Point {
    pub x: f64,
    pub y: f64,
}

impl Point {
    pub const fn new(x: f64, y: f64) -> Point {
        Point { x, y }
    }

    pub fn length(self) -> f64 {
        self.x.hypot(self.y)
    }
}

impl Add for Point {
    type Output = Point;
    fn add(self, other: Point) -> Point {
        Point::new(self.x + other.x, self.y + other.y)
    }
}

impl Sub for Point {
    type Output = Point;
    fn sub(self, other: Point) -> Point {
        Point::new(self.x - other.x, self.y - other.y)
    }
}

impl Mul<f64> for Point {
    type Output = Point;
    fn mul(self, factor: f64) -> Point {
        Point::new(self.x * factor, self.y * factor)
    }
}

impl Neg for Point {
    type Output = Point;
    fn neg(self) -> Point {
        self * -1.0
    }
}

impl AddAssign for Point {
    fn add_assign(&mut self, other: Point) {
        *self = *self + other;
    }
}

impl Sum for Point {
    fn sum<I: Iterator<Item = Point>>(points: I) -> Point {
        points.fold(Point::default(), Add::add)
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match f.precision() {
            Some(digits) => write!(f, "({:.digits$}, {:.digits$})", self.x, self.y),
            None => write!(f, "({}, {})", self.x, self.y),
        }
    }
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Point {
        Point::new(x, y)
    }
}

impl FromStr for Point {
    type Err = Box<dyn Error>;
    fn from_str(text: &str) -> Result<Point, Box<dyn Error>> {
        let (x, y) = text.split_once(',').ok_or_else(|| format!("no comma in {text:?}"))?;
        Ok(Point::new(x.trim().parse()?, y.trim().parse()?))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Shape {
    Circle(u32),
    Rectangle { width: u32, height: u32 },
    Nothing,
}

impl Shape {
    pub fn size(&self) -> u32 {
        match *self {
            Shape::Circle(radius) => 3 * radius * radius,
            Shape::Rectangle { width, height } => width * height,
            Shape::Nothing => 0,
        }
    }
}

#[derive(Debug)]
pub enum ConfigError {
    Missing(&'static str),
    Number(ParseIntError),
    OutOfRange { name: String, value: i64 },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Missing(name) => write!(f, "{name} is missing"),
            ConfigError::Number(error) => write!(f, "not a number: {error}"),
            ConfigError::OutOfRange { name, value } => write!(f, "{name} cannot be {value}"),
        }
    }
}

impl Error for ConfigError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            ConfigError::Number(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ParseIntError> for ConfigError {
    fn from(error: ParseIntError) -> ConfigError {
        ConfigError::Number(error)
    }
}

pub trait Animal {
    fn name(&self) -> String;
    fn legs(&self) -> u32 {
        4
    }
}

pub struct Dog;
pub struct Bird(pub &'static str);

impl Animal for Dog {
    fn name(&self) -> String {
        "dog".to_owned()
    }
}

impl Animal for Bird {
    fn name(&self) -> String {
        self.0.to_owned()
    }
    fn legs(&self) -> u32 {
        2
    }
}

pub fn menagerie() -> Vec<Box<dyn Animal>> {
    vec![Box::new(Dog), Box::new(Bird("owl")), Box::new(Bird("wren"))]
}

/// Writes its name into the journal when it is dropped.
pub struct Noisy<'a>(pub &'a str, pub &'a RefCell<Vec<String>>);

impl Noisy<'_> {
    pub fn name(&self) -> &str {
        self.0
    }
    pub fn touch(&self) -> &Self {
        self.1.borrow_mut().push(format!("{} touched", self.0));
        self
    }
}

impl Drop for Noisy<'_> {
    fn drop(&mut self) {
        self.1.borrow_mut().push(format!("{} dropped", self.0));
    }
}

pub fn noisy<'a>(name: &'a str, journal: &'a RefCell<Vec<String>>) -> Noisy<'a> {
    journal.borrow_mut().push(format!("{name} made"));
    Noisy(name, journal)
}

/// A stack that shows as its slice.
#[derive(Clone, Debug, Default)]
pub struct Stack<T>(Vec<T>);

impl<T> Stack<T> {
    pub fn with(mut self, value: T) -> Self {
        self.0.push(value);
        self
    }
}

impl<T> Deref for Stack<T> {
    type Target = Vec<T>;
    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<T> DerefMut for Stack<T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}

impl<T> IntoIterator for Stack<T> {
    type Item = T;
    type IntoIter = std::iter::Rev<std::vec::IntoIter<T>>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().rev()
    }
}

impl<T> FromIterator<T> for Stack<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Stack(values.into_iter().collect())
    }
}

/// A matrix whose size is part of its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Matrix<const ROWS: usize, const COLUMNS: usize>(pub [[i32; COLUMNS]; ROWS]);

impl<const ROWS: usize, const COLUMNS: usize> Matrix<ROWS, COLUMNS> {
    pub fn transposed(self) -> Matrix<COLUMNS, ROWS> {
        let mut turned = [[0; ROWS]; COLUMNS];
        for (row, values) in self.0.iter().enumerate() {
            for (column, value) in values.iter().enumerate() {
                turned[column][row] = *value;
            }
        }
        Matrix(turned)
    }
}

impl<const ROWS: usize, const COLUMNS: usize> Index<(usize, usize)> for Matrix<ROWS, COLUMNS> {
    type Output = i32;
    fn index(&self, (row, column): (usize, usize)) -> &i32 {
        &self.0[row][column]
    }
}

impl<const ROWS: usize, const COLUMNS: usize> IndexMut<(usize, usize)> for Matrix<ROWS, COLUMNS> {
    fn index_mut(&mut self, (row, column): (usize, usize)) -> &mut i32 {
        &mut self.0[row][column]
    }
}

/// A number of some unit, which exists in types alone.
#[derive(Debug, PartialEq, PartialOrd)]
pub struct Quantity<Unit>(pub u64, PhantomData<fn() -> Unit>);

#[derive(Debug, PartialEq, PartialOrd)]
pub enum Metre {}

impl<Unit> Quantity<Unit> {
    pub const fn of(count: u64) -> Self {
        Quantity(count, PhantomData)
    }
}

impl<Unit> Clone for Quantity<Unit> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<Unit> Copy for Quantity<Unit> {}

impl<Unit> Add for Quantity<Unit> {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Quantity::of(self.0 + other.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Not for Flags {
    type Output = Flags;
    fn not(self) -> Flags {
        Flags(!self.0)
    }
}

#[derive(Debug)]
pub struct Even(pub u32);

impl TryFrom<u32> for Even {
    type Error = String;
    fn try_from(n: u32) -> Result<Even, String> {
        if n % 2 == 0 { Ok(Even(n)) } else { Err(format!("{n} is odd")) }
    }
}

/// A tree of names.
#[derive(Debug, Default)]
pub struct Node {
    pub name: String,
    pub children: RefCell<Vec<Rc<Node>>>,
    pub visits: Cell<u32>,
}

impl Node {
    pub fn new(name: &str) -> Rc<Node> {
        Rc::new(Node { name: name.into(), ..Node::default() })
    }
    pub fn visit(&self) -> &str {
        self.visits.set(self.visits.get() + 1);
        &self.name
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    pub name: String,
    pub retries: u8,
    pub verbose: bool,
    pub tags: Vec<String>,
}

impl Settings {
    pub fn named(name: impl Into<String>) -> Settings {
        Settings { name: name.into(), ..Default::default() }
    }
    pub fn retries(mut self, retries: u8) -> Self {
        self.retries = retries;
        self
    }
    pub fn tag(mut self, tag: &str) -> Self {
        self.tags.push(tag.to_string());
        self
    }
}

pub fn lookup(table: &HashMap<String, String>, name: &'static str) -> Result<i64, ConfigError> {
    let text = table.get(name).ok_or(ConfigError::Missing(name))?;
    let value: i64 = text.parse()?;
    if !(0..=100).contains(&value) {
        return Err(ConfigError::OutOfRange { name: name.to_string(), value });
    }
    Ok(value)
}

pub fn without_spaces(text: &str) -> Cow<'_, str> {
    if text.contains(' ') { Cow::Owned(text.replace(' ', "")) } else { Cow::Borrowed(text) }
}

pub fn largest<T: PartialOrd + Copy>(values: &[T]) -> Option<T> {
    let (first, rest) = values.split_first()?;
    Some(rest.iter().fold(*first, |largest, value| if *value > largest { *value } else { largest }))
}

pub fn compose<A, B, C>(first: impl Fn(A) -> B, second: impl Fn(B) -> C) -> impl Fn(A) -> C {
    move |value| second(first(value))
}

pub fn counter() -> impl FnMut() -> u32 {
    let mut count = 0;
    move || {
        count += 1;
        count
    }
}

pub fn fail(why: &str) -> ! {
    panic!("failed: {why}")
}
