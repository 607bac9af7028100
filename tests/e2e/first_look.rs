//! One signed webhook from HTTP to folded state, on both backends.

use oncefold_e2e::{Api, Backend, Deployment, Provider};
use serde_json::json;

pub fn orders() -> String {
    format!(
        "[sources.shop]\npreset = \"svix\"\nsecrets = [\"{}\"]\n\
         [[sources.shop.projections]]\non = [\"order.*\"]\nentity = \"order\"\nkey = \"/id\"\n\
         version = [\"/version\"]\nrank = [\"order.created\", \"order.paid\"]\ndelete_on = [\"order.deleted\"]\n",
        Provider::secret()
    )
}

fn one_webhook(backend: Backend) {
    let deployment = Deployment::on(backend, &orders());
    let mut serve = deployment.start(&["serve"]);
    let (ingest, api) = (serve.address("intake"), Api::at(serve.address("admin")));
    let body = br#"{"type":"order.paid","id":"ord_1","version":7,"total":9007199254740993}"#;
    let reply = Provider::of("shop").send(ingest, "msg_1", body).unwrap();
    assert_eq!((reply.status, reply.body.as_str()), (200, r#"{"status":"accepted"}"#));
    let event = api.event("msg_1", "applied");
    assert_eq!(event["changes"], json!([{"entity": "order", "key": "ord_1", "version": "7", "verdict": "applied"}]));
    assert_eq!((&event["deliveries"], &event["attempts"]), (&json!(1), &json!(1)));
    let order = api.get("/entities/order/ord_1");
    assert_eq!(
        order["state"].to_string(),
        r#"{"id":"ord_1","total":9007199254740993,"type":"order.paid","version":7}"#
    );
    assert_eq!(deployment.cli_json(&["entities", "get", "order", "ord_1"]), order, "the CLI shows what the API shows");
    assert_eq!(serve.stop(), Some(0), "SIGTERM ends it well");
}

#[test]
fn one_webhook_embedded() {
    one_webhook(Backend::Embedded);
}

#[test]
fn one_webhook_fleet() {
    one_webhook(Backend::Fleet);
}
