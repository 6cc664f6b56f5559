// Package browsertest tries the console of package dedupweb in a real browser. It is a module
// of its own, so that those who use the console do not get what drives the browser.
package browsertest
