/* What a configuration may define. A define that is not given is 0. */

/* What the tool declares. */
#ifndef KEY
#define KEY 0
#endif
#ifndef FIND
#define FIND 0
#endif
#ifndef SETTLES
#define SETTLES 0
#endif

/* ---- what else there is ---- */

#ifndef DECLINES_KEPT
#define DECLINES_KEPT 0 /* the provider keeps declines under the key */
#endif
#ifndef HEARTBEAT
#define HEARTBEAT 0     /* the lease is extended while Perform runs; needs TIMEOUT */
#endif
#ifndef READ_FIRST
#define READ_FIRST 0    /* what is due is read in one statement and taken in another */
#endif
#ifndef HUMAN
#define HUMAN 0
#endif
#ifndef REUSE
#define REUSE 0
#endif
#ifndef GIVES_UP
#define GIVES_UP 0      /* what has been tried for long is parked, whatever could tell */
#endif
#ifndef FINISH_FAILS
#define FINISH_FAILS 0  /* always */
#endif
#ifndef ONLY_RECOVERER
#define ONLY_RECOVERER 0 /* callers claim and do nothing else */
#endif
#ifndef REPORTED
#define REPORTED 0      /* it may happen twice, and is reported then */
#endif
#ifndef REFUSAL_MAY_BE_WRONG
#define REFUSAL_MAY_BE_WRONG 0 /* a late success may follow it: not checked */
#endif
#ifndef RELEASES
#define RELEASES 0      /* worker 0 is of another release, whose tool has no key */
#endif
#ifndef REJECTS
#define REJECTS 0       /* the provider rejects a used key, and lists late. Once the row has that, it forgets the key */
#endif
#ifdef PROGRESS
#define BACKOFF 1
#else
#define BACKOFF 0
#endif

/* ---- sizes, and times in ticks ---- */

#define SLOTS 4 /* the most WORKERS there may be */
#ifndef WORKERS
#define WORKERS 3
#endif
#ifndef CALLERS
#define CALLERS 2
#endif
#ifndef ORPHANS
#define ORPHANS 2
#endif
#ifndef LEASE
#define LEASE 1
#endif
#ifndef TIMEOUT
#define TIMEOUT LEASE
#endif
#ifndef SETTLE
#define SETTLE 1 /* Settles */
#endif
#ifndef LATE
#define LATE SETTLE /* what Settles should have been */
#endif
#ifndef KEPT
#define KEPT 5 /* KeyKept */
#endif

#define NEVER 255
#define UNSENT 255
#define FOREVER 0 /* a request that has so many ticks left may take any number */

/* ---- rules, and what takes each of them out ---- */

/* The row has settled Settles after its last attempt has ended: not after it has begun. */
#ifndef SETTLE_FROM_START
#define SETTLE_FROM_START 0
#endif
/* It has settled if it had when the look-up began: not when the look-up was answered. */
#ifndef SETTLED_AT_ANSWER
#define SETTLED_AT_ANSWER 0
#endif
/* The lease is checked before the send. */
#ifndef NO_LEASE_CHECK
#define NO_LEASE_CHECK 0
#endif
/* Every row's fence comes from the clock: it does not begin at 1 with each row. */
#ifndef NO_FENCE_SEQUENCE
#define NO_FENCE_SEQUENCE 0
#endif
/* A success of an earlier life of the identity is not recorded in a later one. */
#ifndef NO_LIFE_CHECK
#define NO_LIFE_CHECK 0
#endif
/* Nor is it recorded where the row is done and its record forgotten. */
#ifndef NO_DONE_CHECK
#define NO_DONE_CHECK 0
#endif
/* The row is forgotten after the recheck. */
#ifndef FORGET_BEFORE_RECHECK
#define FORGET_BEFORE_RECHECK 0
#endif
/* A key is sent again only where it holds: where it is known at the end of the attempt. */
#ifndef NO_KEY_WINDOW
#define NO_KEY_WINDOW 0
#endif
/* With Settles that is at the end of the attempt and Settles. */
#ifndef WINDOW_WITHOUT_SETTLES
#define WINDOW_WITHOUT_SETTLES 0
#endif
/* KeyKept counts from the first attempt: not anew after one that had no effect, or after Never. */
#ifndef WINDOW_ANEW
#define WINDOW_ANEW 0
#endif
/* It is judged by the statement that begins the attempt, not by what was read before that. */
#ifndef JUDGED_BEFORE_TAKE
#define JUDGED_BEFORE_TAKE 0
#endif
/* Nor by what the look-up was begun with. */
#ifndef JUDGED_AT_LOOK
#define JUDGED_AT_LOOK 0
#endif
/* Where it no longer holds, that the row has settled since the look-up does not replace it. */
#ifndef SETTLED_AT_SEND
#define SETTLED_AT_SEND 0
#endif
/* The statement that takes the row compares its state with what was read, not the fence alone. */
#ifndef STATE_AS_READ
#define STATE_AS_READ 0
#endif
/* An attempt that has sent something before does not take NotDone for an answer. */
#ifndef NO_NOTDONE_MEMORY
#define NO_NOTDONE_MEMORY 0
#endif
/* Nor a refusal: the provider may be about to forget the key under which it keeps refusals. */
#ifndef NO_REFUSAL_MEMORY
#define NO_REFUSAL_MEMORY 0
#endif
/* A refusal is the answer where earlier attempts have settled. */
#ifndef NO_LOOK_BEFORE_REFUSAL
#define NO_LOOK_BEFORE_REFUSAL 0
#endif
/* They must have when the refused attempt began: not when it was refused. */
#ifndef SETTLED_AT_DECLINE
#define SETTLED_AT_DECLINE 0
#endif
/* Nor when the attempt's lease was extended. */
#ifndef SETTLED_AT_EXTENSION
#define SETTLED_AT_EXTENSION 0
#endif
/* An answer that relies on a look-up which found nothing is looked at once more. */
#ifndef NO_RECHECK
#define NO_RECHECK 0
#endif
/* That is so of a refusal too. */
#ifndef NO_REFUSAL_RECHECK
#define NO_REFUSAL_RECHECK 0
#endif
/* A key is sent again only where every attempt had it. */
#ifndef KEY_OF_ANOTHER_RELEASE
#define KEY_OF_ANOTHER_RELEASE 0
#endif
/* That the provider has an effect of the key is kept: nothing is sent again. */
#ifndef EXISTS_FORGOTTEN
#define EXISTS_FORGOTTEN 0
#endif
/* What cannot be recorded for good is parked. */
#ifndef NO_PARK_AFTER_FINISH
#define NO_PARK_AFTER_FINISH 0
#endif

/* ---- what follows ---- */

#define MAX(a, b) ((a) > (b) -> (a) : (b))

/* WINDOW is how long before the end of the key an attempt must have begun. */
#define PATIENCE MAX(2 * LEASE, TIMEOUT + LEASE)
#if NO_KEY_WINDOW
#define WINDOW 0
#elif SETTLES && !WINDOW_WITHOUT_SETTLES
#define WINDOW MAX(PATIENCE, TIMEOUT + SETTLE)
#else
#define WINDOW PATIENCE
#endif

/* A request has fewer than REACH ticks from the beginning of its attempt, and no more than
 * GRACE from its end. TO_SETTLE is what the row says when the attempt begins. */
#if SETTLES
#define REACH (LEASE + LATE)
#define GRACE(ticks) ((ticks) < LATE -> (ticks) : LATE)
#define RECHECK (TIMEOUT + LATE)
#elif KEY
#define REACH (PATIENCE + 1)
#define GRACE(ticks) (ticks)
#define RECHECK REACH
#else
#define REACH FOREVER
#define GRACE(ticks) (ticks)
#define RECHECK 1
#endif
#if !SETTLES
#define TO_SETTLE 0
#elif SETTLE_FROM_START
#define TO_SETTLE SETTLE
#else
#define TO_SETTLE (LEASE + SETTLE)
#endif
