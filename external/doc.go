// Package external runs write tools whose effects are outside the database: payments, mails,
// tickets elsewhere, long jobs. One call has one recorded answer. If the outcome cannot be known,
// the call says so, and the effect is not repeated silently.
//
// No transaction covers an effect elsewhere. Between "sent" and "recorded" a process can die, and
// a provider's reply can be lost. The features of the provider decide what is guaranteed then:
//
//	Tool declares         Guarantee                                     It rests on
//	KeyKept               once; the library finds the outcome alone     the provider's own dedup; no request uses
//	                      within KeyKept; after that as below           a key that the provider may have forgotten
//	Find and Settles      once if Settles is right; if it is too        one look-up that starts Settles after the
//	                      short, twice and reported                     last attempt ended, and its recheck
//	Find                  at most once; an effect that is found is      nothing
//	                      recorded, else the operation is parked
//	neither               at most once; an unknown outcome is parked    nothing
//
// In every row the writes of Finish or Refused happen once, in the transaction of the record. An
// unknown outcome is never reported as a failure, never deleted and never repeated. An effect that
// happened twice is reported if Settles is right or Find returns every effect.
//
// A refusal is not certain if all three hold: earlier attempts of the call may still take effect,
// Settles is not declared, and the provider does not keep refusals under a key. Then a late success
// is possible. It is reported when the library finds it.
//
// This package is less stable than package dedup. Its names and options may change in a minor
// version, and the changelog lists each change. The table and the provider's keys do not change.
//
// The guarantees hold for a database that loses no commits. If a failover may lose some, use
// synchronous replication or providers with keys. After a failover to a server whose clock is
// ahead, leases and Settles end early.
//
// # How it works
//
// An operation is a row of tool_effect. A call claims it and commits in one round trip, calls
// Perform, and writes the answer with [dedup.Do]. The row's last change, the writes of Finish and
// the record are one transaction.
//
// Every act on the row changes its fence, and every change compares the fence. So any number of
// calls, jobs and recoverers may try to act on one operation, and one at a time succeeds. A
// success is recorded even if another process holds the operation by then, because it happened. A
// failure counts only if its process still holds the operation.
//
// An operation without an answer is continued by the next call, by [Tools.Recover] in any process,
// or by a job that calls [Tools.Advance]. With a key it is sent again. With Find it is looked up.
// Otherwise it is parked until an operator decides it with [Tools.Resolve], or until one of a few
// more look-ups finds the effect.
//
// # Words
//
// The provider is the service that carries out the effect. An attempt is one run of Perform. An
// operation is parked if only a person can find out its outcome. The ref is the provider's id of
// the effect.
package external
