// Mutate plants changes in the library's decision code, one at a time, and counts
// how many of them the tests catch. A change that no test notices is a survivor:
// either a test is missing, or the change makes no difference.
//
//	go run ./internal/mutate
//
// Compiling the tests once for each change would take most of the time. So all
// sampled changes are compiled into one test binary, each as another body of its
// function, and the variable DEDUP_MUTANT says which one runs:
//
//	func (p *patience) spent() bool {
//		if mutant == 17 {
//			return func() bool { return p.max <= 0 || … }()
//		}
//		return p.max < 0 || …
//	}
//
// Constants cannot be chosen when the program runs, so a changed constant gets a
// binary of its own. The tree is never written to: go build reads the changed
// files through its -overlay flag.
//
// Which tests are run against a change is measured, not guessed: each test runs
// once by itself for its coverage, and the tests that reach the changed line are
// the ones that count, the quickest first. If those of the first round pass, all
// others that reach the line are run before the change counts as survived.
//
// A test that fails on the unchanged code too proves nothing. Those that fail
// alone are left out, and at the end the tests that caught something are run again,
// in the same way and with no change: what fails then has caught nothing, and its
// changes are tried anew without it.
package main
