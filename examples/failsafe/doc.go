// Package failsafe shows package runner with a circuit breaker and a budget of retries around every
// try, both of failsafe-go. It has examples only. It is in the examples' module, so that users of
// the library do not download failsafe-go.
package failsafe
