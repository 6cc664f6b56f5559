// Package dedupweb is a web console for operators: an [http.Handler] that shows the state of calls,
// the calls that need an operator, and the share of repeats. Visitors with the right to act free
// records and resolve parked effects with it.
//
// The program returns each visitor's rights, and there is no default that lets anyone in. Without
// [Access.Act] nothing can be changed. Keys and results are shown only with [Access.Keys] and
// [Access.Results].
//
// Every page shows whether something needs an operator. Pages are rendered on the server and work
// without JavaScript, which only refreshes them. No page counts records: figures come from Sweepers
// with RecordStats, or else from this process.
package dedupweb
