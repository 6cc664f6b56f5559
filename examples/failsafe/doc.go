// Package failsafe shows package runner with a circuit breaker and a budget of
// retries around every try, both of failsafe-go. It has examples and nothing else,
// in the module of the examples, so that users do not download failsafe-go.
package failsafe
