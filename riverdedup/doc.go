// Package riverdedup makes jobs of River (https://riverqueue.com) take effect once.
//
// [Do] runs a job's database writes, records them and completes the job, in one transaction:
//
//	func (w *AddPoints) Work(ctx context.Context, job *river.Job[AddPointsArgs]) error {
//		return riverdedup.Do(ctx, w.d, job.Args.Customer, job, func(ctx context.Context, tx pgx.Tx) error {
//			…
//		})
//	}
//
// Call Do once in Work, and return what it returns. If its effect ran, the job is completed: River
// does not retry work that follows Do in Work, even if that returns an error or panics. If an
// earlier run took effect, River does retry it. Insert a job for such work in the effect, with
// River's InsertTx.
//
// # An outbox
//
// The package also joins package external and River. [Enqueue] inserts a job for each operation
// that external.Handle.Accept writes, in the same transaction. [Worker] advances the operation
// until it has an answer. A rollback undoes both. If River runs a job again, because its worker was
// killed or River rescued it, the operation's fence prevents a second effect.
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
// River's migrations and those of this library can run in any order.
package riverdedup
