// Package riverdedup joins package external and River (https://riverqueue.com).
//
// An outbox: [Enqueue] inserts a job for each operation that external.Handle.Accept writes, in the
// same transaction. [Worker] advances the operation until it has an answer. A rollback undoes both.
// If River runs a job again, because its worker was killed or River rescued it, the operation's
// fence prevents a second effect.
//
//	worker := &riverdedup.Worker{}
//	workers := river.NewWorkers()
//	river.AddWorker(workers, worker)
//	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Workers: workers, …})
//	worker.Tools, err = external.New(d, &external.Options{Enqueue: riverdedup.Enqueue(client)})
//	mail, err := external.Add(worker.Tools, external.Tool[Mail, Sent]{Name: "send_mail", …})
//	err = client.Start(ctx)
//
// Run external.Tools.Recover too. It continues operations without a job, such as interrupted calls
// of Do, and parked operations that are looked up or resolved. When the process ends, stop the
// client first and then close the Tools.
//
// A job that takes effect once: [Do] runs the database writes of any River job and completes the
// job, in one transaction.
//
// River's migrations and those of this library can run in any order.
package riverdedup
