//! Bank: a teller orders `transactions` between `accounts`. The account that pays asks the other to take the money,
//! waits for it, and reports to the teller; meanwhile its other orders wait. An operation is one transaction.
//!
//! Money goes from lower to higher account numbers only, so no two accounts wait for each other.

use futures_channel::oneshot;

use super::{Dice, Library, Never, Role, Watch, expect, no_end};
use crate::failure::Failure;
use crate::stats::Sample;

struct Account {
    balance: i64,
}

struct Transfer<L: Library> {
    amount: i64,
    to: L::Address<Account>,
    teller: L::Address<Teller<L>>,
}

enum Inquiry {
    Take { amount: i64 },
    Balance,
}

impl<L: Library> Role<L> for Account {
    const PARKS: bool = true;

    type Message = Transfer<L>;
    type Question = Inquiry;
    type Answer = i64;

    async fn receive(&mut self, Transfer { amount, to, teller }: Transfer<L>) {
        self.balance -= amount;
        L::ask::<Account>(&to, Inquiry::Take { amount }).await;
        L::tell::<Teller<L>>(&teller, Report::Paid(amount)).await;
    }

    fn answer(&mut self, question: Inquiry) -> i64 {
        if let Inquiry::Take { amount } = question {
            self.balance += amount;
        }
        self.balance
    }
}

struct Teller<L: Library> {
    accounts: Vec<L::Address<Account>>,
    transactions: usize,
    left: usize,
    ordered: i64,
    paid: i64,
    done: Option<oneshot::Sender<i64>>,
}

enum Report<L: Library> {
    Begin(L::Address<Teller<L>>),
    Paid(i64),
}

impl<L: Library> Role<L> for Teller<L> {
    const PARKS: bool = true;

    type Message = Report<L>;
    type Question = Never;
    type Answer = Never;

    async fn receive(&mut self, message: Report<L>) {
        match message {
            Report::Begin(teller) => {
                let mut dice = Dice::new(0);
                let number = self.accounts.len();
                for _ in 0..self.transactions {
                    let from = dice.below(number / 10 * 8);
                    let to = from + 1 + dice.below(number - from - 1);
                    let amount = 1 + dice.below(1_000) as i64;
                    self.ordered += amount;
                    let transfer = Transfer { amount, to: self.accounts[to].clone(), teller: teller.clone() };
                    L::tell::<Account>(&self.accounts[from], transfer).await;
                }
            }
            Report::Paid(amount) => {
                self.paid += amount;
                self.left -= 1;
                if self.left == 0
                    && let Some(done) = self.done.take()
                {
                    let _ = done.send(self.ordered - self.paid);
                }
            }
        }
    }

    fn answer(&mut self, question: Never) -> Never {
        question
    }
}

pub async fn run<L: Library>(accounts: usize, transactions: usize) -> Result<Vec<Sample>, Failure> {
    let mut bank = Vec::with_capacity(accounts);
    for place in 0..accounts {
        bank.push(L::start(Account { balance: 0 }, place).await);
    }
    let (done, end) = oneshot::channel();
    let teller =
        Teller::<L> { accounts: bank.clone(), transactions, left: transactions, ordered: 0, paid: 0, done: Some(done) };
    let teller = L::start(teller, 0).await;
    let watch = Watch::start();
    L::tell::<Teller<L>>(&teller, Report::Begin(teller.clone())).await;
    expect("what was ordered and not paid", end.await.map_err(no_end)?, 0)?;
    let samples = watch.stop(transactions as u64);
    let mut sum = 0;
    for account in &bank {
        sum += L::ask::<Account>(account, Inquiry::Balance).await;
    }
    expect("the sum of all balances", sum, 0)?;
    Ok(samples)
}
