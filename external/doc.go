// Package external runs write tools whose effects are outside of the database: payments,
// mails, tickets elsewhere, long jobs. One call has one recorded answer, and what cannot be
// known is said to be unknown and never repeated silently.
//
// No transaction holds an effect elsewhere. Between "sent" and "recorded" a process can
// die, and an answer can be lost. What the provider offers decides what is guaranteed then:
//
//	Tool declares         Guarantee                                     It rests on
//	KeyKept               once, found out without a person within       the provider's own dedup; nothing is sent
//	                      KeyKept; after it as below                    with a key that it may have forgotten
//	Find and Settles      once if Settles is true; if it is not,        a look that began Settles after the last
//	                      twice and reported                            attempt had ended, and another one later
//	Find                  at most once; what is found is recorded,      nothing
//	                      what is not found is parked
//	neither               at most once; what is unknown is parked       nothing
//
// In every row the writes of Finish or Refused happen once, with the record. An unknown outcome is never told as a failure, never
// swept, never repeated. An effect that happened twice is reported, as long as Settles is
// true or Find finds all that there is. A refusal is not certain where earlier attempts of
// the same call may be out, Settles is not declared, and the provider does not
// keep refusals under a key: then a late success is possible, and reported when this library
// learns of it.
//
// This package is less stable than package dedup. Its names and options may change in a minor
// version, each change with its line in the changelog; the table and the provider's keys are kept.
//
// All of it holds for a database that loses no commits. Where a failover may lose some,
// use synchronous replication or providers with keys. A failover to a server whose clock is
// ahead ends leases and Settles early.
//
// # How it works
//
// An operation is a row of tool_effect. A call claims it in one round trip and commits,
// calls Perform, and writes the answer with [dedup.Do]: the row, what Finish writes, and
// the record are one transaction. The row's fence changes with every act, and every change
// compares it: any number of callers, jobs and recoverers may act on one operation, and one
// at a time does. A success is recorded whoever holds the operation by then, because it is
// a fact; a failure counts only for the act that holds it.
//
// A call that was cut off is taken up by the next call, by [Tools.Recover] in any process,
// or by a job that calls [Tools.Advance]: with a key it is sent again, with Find it is
// looked up, and else it is parked until a person resolves it with [Tools.Resolve].
//
// # Words
//
// The provider is whoever carries out the effect. An attempt is one run of Perform. An
// operation is parked when only a person can find out what became of it. The ref is the
// provider's id of what happened.
package external
