// Package riverdedup joins package external and River (https://riverqueue.com).
//
// An outbox: [Enqueue] puts a job beside each operation that external.Handle.Accept writes,
// in the same transaction, and [Worker] advances it until it is answered. What is rolled
// back leaves neither operation nor job. A job that runs again, because its worker was
// killed or River has rescued it, meets the operation's fence: it takes effect once.
//
//	worker := &riverdedup.Worker{}
//	workers := river.NewWorkers()
//	river.AddWorker(workers, worker)
//	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Workers: workers, …})
//	worker.Tools, err = external.New(d, &external.Options{Enqueue: riverdedup.Enqueue(client)})
//	mail, err := external.Add(worker.Tools, external.Tool[Mail, Sent]{Name: "send_mail", …})
//	err = client.Start(ctx)
//
// Keep running external.Tools.Recover: it takes up what has no job, such as calls of Do that were
// cut off, and parked operations that are looked up or resolved. When the process ends,
// stop the client first, and close the Tools after it.
//
// A job that takes effect once: [Do] runs the database writes of any River job and
// completes the job in one transaction.
//
// River's migrations and those of this library run beside each other, in any order.
package riverdedup
