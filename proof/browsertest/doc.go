// Package browsertest tries the console of package dedupweb in a real browser. It is outside the
// library's module, so that users of the console do not get what drives the browser.
package browsertest
