// Package browsertest tests the console of package dedupweb in a real browser. It is outside the
// library's module, so that users of the console do not download the browser's driver.
package browsertest
