//! Against a real RabbitMQ, which the environment variable `AMQP_URL` names; `make test` starts one.

mod fetching;
mod producing;
mod support;
