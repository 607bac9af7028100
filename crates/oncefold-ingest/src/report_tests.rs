use super::*;

#[tokio::test(start_paused = true)]
async fn so_many_lines_a_second_then_a_count() {
    let budget = LineBudget::full();
    let admitted = |n: usize| (0..n).filter(|_| budget.admits()).count();
    assert_eq!(admitted(1000), 10);
    tokio::time::advance(Duration::from_millis(999)).await;
    assert_eq!(admitted(5), 0);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(admitted(12), 10);
    assert_eq!(budget.0.lock().unwrap().left_out, 990 + 5 + 2);
    budget.settle("shop");
    assert_eq!(budget.0.lock().unwrap().left_out, 0);
}

#[test]
fn excerpts_are_short_and_escaped() {
    assert_eq!(excerpt("a\nb\u{1b}[31m\"\u{202e}"), r#"a\nb\u{1b}[31m\"\u{202e}"#);
    assert_eq!(excerpt(&"x".repeat(64)), "x".repeat(64));
    assert_eq!(excerpt(&"x".repeat(10_000)), "x".repeat(64) + "…");
}
