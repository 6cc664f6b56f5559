// Package failsafe shows package runner with a circuit breaker and a budget of
// retries around every try, both of failsafe-go. It has examples and nothing else,
// and is a module of its own so that nobody else downloads failsafe-go.
package failsafe
