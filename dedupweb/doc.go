// Package dedupweb is a console: an [http.Handler] that shows operators what became of calls,
// what needs somebody, and how many calls were duplicates. Those who may act free records and
// resolve parked effects with it.
//
// The program says for each request who asks and what they may see and do; there is no default
// that lets anybody in. Nothing can be changed without [Access.Act]. Keys and results are shown
// to those who may see them.
//
// Each page says whether something needs somebody. Pages are made on the server and work
// without JavaScript, which only renews them.
// No record is counted: figures are those that Sweepers with RecordStats have written, else
// those of this process.
package dedupweb
