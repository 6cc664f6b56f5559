/*
 * A model of one operation of package external: an effect outside the database, which is
 * claimed in one transaction and recorded in another. spin tries every order of the steps of
 * some processes, a provider, a person and the clock. model_test.go lists the configurations,
 * each a set of defines, and says which of them must hold and which must fail. By hand:
 *
 *     spin -DFIND -DSETTLES -a effect.pml && cc -O2 -DSAFETY -o pan pan.c && ./pan -m1000000
 *     spin -DFIND -DSETTLES -t -p -g effect.pml     # the steps to what it has found
 *
 * What the tool declares is any of KEY (KeyKept), FIND (Find) and SETTLES (Settles). rules.pml
 * has all defines, with what each rule says and what takes it out.
 *
 * What is modelled:
 *
 *   Processes. There are WORKERS of them. The first CALLERS claim the operation where it is
 *   not there. All of them take it when it is due, as a call's next look-up and Recover do. Each
 *   may stop between any two steps for any time, and may die at each of them, any number of
 *   times; then it begins anew and knows nothing. One that sleeps between its check of the
 *   lease and its send is the zombie: each of them may be it.
 *   The database. Each statement and each transaction is one step. A COMMIT whose answer is
 *   lost is that step, after which the process dies or sleeps.
 *   The provider. A request arrives late or never. When it arrives it takes effect, is
 *   declined or fails; with KEY it may also be accepted, and takes effect later. The key is
 *   known for KEPT ticks from the first request that has it, whatever becomes of that. Answers are lost; a process gives up waiting at
 *   any time, and its request may arrive after that. A decline is kept under the key only
 *   with DECLINES_KEPT.
 *   Two releases, with RELEASES, of a tool without Settles. The requests of worker 0 have no key, and it sends none again.
 *   A provider that rejects a used key, with REJECTS: it has an effect, and looks may not see that for any
 *   time. When the row says that it has one, and nothing is under way, the provider may forget the key.
 *   The person, with HUMAN. Says of an operation that is parked, or whose attempts have ended,
 *   what is true when nothing is under way any more, and cancels a pending one. The database
 *   keeps a second person from overturning that: who overrules is not modelled.
 *   The sweep, with REUSE. The record is forgotten, then the row, and the identity is used
 *   anew, while processes of the life before stand where they stood.
 *
 * Time is counted in ticks. The protocol compares only differences of times, so every time is
 * kept as what is left of it, and there is no end of time. Nothing bounds the number of
 * attempts, looks, deaths and ticks. ORPHANS bounds the requests that are under way at the
 * same time and that nobody waits for.
 *
 * What is assumed of the time from the statement that begins an attempt until its request
 * takes effect: with SETTLES it is less than lease and Settles together, and it is less than
 * Settles from the end of the attempt. With KEY alone the request arrives within two leases,
 * and what is accepted may take any time. Otherwise it may take any time. LATE is what happens
 * instead of SETTLE, where the tool has declared too little.
 *
 * What must hold is written as assertions:
 *
 *   Never twice: `effects == 1` whenever one happens. With REPORTED, where the provider breaks
 *   what the tool has declared: twice, and reported, when nothing moves any more.
 *   What was refused has not happened and does not.
 *   An identity has one record in its life, of an effect that has happened, and Finish runs
 *   once for an effect.
 *   Nothing is parked that a key or a settled look-up could tell, or of which nothing was sent.
 *   When nothing moves any more, the operation is done or parked.
 *   With PROGRESS, which is the number of faults, there is no cycle at all. So each operation
 *   ends, whatever the order of the steps, once the faults are used up.
 *
 * What is not modelled: several operations. Clocks that run at different speeds. A database
 * that loses commits. The writes of Begin and Refused. A look-up that does not see an effect that
 * has happened: that is a late effect. Pauses between attempts, which are zero, and with
 * PROGRESS one tick. Requests that are under way while the identity is forgotten: retention is
 * longer than that, and than KEPT.
 *
 * A fence is compared for equality only. So the model keeps who holds the row's fence, and not
 * its number.
 */

#include "rules.pml"
#include "row.pml"
#include "provider.pml"
#include "worker.pml"
#include "world.pml"
