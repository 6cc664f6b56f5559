/* The row of tool_effect, the record in tool_dedup, and the statements that change them. */

#define ABSENT 0
#define PENDING 1
#define RUNNING 2
#define PARKED 3
#define DONE 4

/* What a record, an answer and the provider's memory of a key may be: nothing; a ref, 1 or 2
 * in the first life of the identity, 3 or 4 in the second; or one of these. */
#define NONE 0
#define REFUSED 10
#define WORKING 11
#define UNKNOWN 12
#define NOTDONE 13
#define NOTFOUND 14
#define FAILED 15
#define EXISTS 16
#define IS_REF(answer) (answer != NONE && answer < REFUSED)

/* Verdicts that are stored. */
#define HAPPENED 1
#define REFUSE 2

#define NOBODY 9

byte record = NONE;
byte state = ABSENT;
byte due = NEVER;     /* ticks until due_at */
byte age = UNSENT;    /* ticks since sent_at, at most KEPT; UNSENT where it is NULL */
bit sent = 0;         /* sent_until is not NULL: something that was sent may have an effect */
byte settle = 0;      /* ticks until sent_until + Settles */
byte holder = NOBODY; /* the worker whose act has the row's fence */
byte verdict = NONE;
bit looked = 0;
bit keyless = 0;      /* an attempt that may have an effect went out without the key */
bit confirmed = 0;    /* the provider has said that it has an effect of the key */
bit twice = 0;
bit first = 0;        /* the row's fence is its claim's: 1, with NO_FENCE_SEQUENCE */

bit life = 0;
byte finished = 0;    /* for which refs Finish has run, as bits */

/* Where a worker stands. */
#define IDLE 0
#define READ 1       /* has read what is due and has not taken it */
#define BEGUN 2      /* has begun an attempt */
#define SENDING 3    /* has checked the lease; has not sent yet, or waits for the answer */
#define ANSWERED 4
#define LOOKING 5
#define LOOKED 6
#define JUDGING 7    /* carries out a verdict */
#define RECHECKING 8 /* looks after the answer */
#define RECHECKED 9

typedef Worker {
	byte at;
	byte answer;
	byte fresh;    /* ticks until the lease ends by its own clock */
	byte left;     /* while SENDING: ticks that the request has */
	byte earlier;  /* ticks until earlier attempts have settled */
	byte seen;     /* the row's state as it was read */
	bit current;   /* the row has the fence that was read */
	bit held;      /* the key held then, or when the look-up began */
	bit only;      /* no attempt came before this one */
	bit settled;   /* earlier attempts had settled when this one, or the look-up, began */
	bit declined;  /* looks because its attempt was refused */
	bit more;      /* the look-up has found more than one effect */
	bit extended;
	bit old;       /* began in the life before */
	bit first      /* its fence is that of a claim */
}
Worker w[SLOTS];

inline idle(i) {
	w[i].at = IDLE; w[i].answer = NONE;
	w[i].fresh = 0; w[i].left = 0; w[i].earlier = 0;
	w[i].seen = ABSENT; w[i].current = 0; w[i].held = 0;
	w[i].only = 0; w[i].settled = 0; w[i].declined = 0; w[i].more = 0;
	w[i].extended = 0; w[i].old = 0; w[i].first = 0
}

/* What was read is compared by the fence, so that a new one ends it. */
inline next_fence(who) {
	holder = who;
	first = 0;
	w[0].current = 0; w[1].current = 0; w[2].current = 0; w[3].current = 0
}
#define HOLDS_ROW(i) (holder == i || NO_FENCE_SEQUENCE && first && w[i].first)
#define MINE(i) (HOLDS_ROW(i) && (state == RUNNING || state == PARKED))

#define HAS_KEY(i) (KEY && !(RELEASES && i == 0))
#define KEY_HOLDS (KEY && (!keyless || KEY_OF_ANOTHER_RELEASE) && (!confirmed || EXISTS_FORGOTTEN) && age + WINDOW < KEPT)
#define HAS_SETTLED (SETTLES && settle == 0)

/* The claim, an INSERT; or the UPDATE that takes the row and sends. */
inline begin(i) {
	w[i].first = 0;
	next_fence(i);
	w[i].earlier = settle;
	w[i].fresh = LEASE;
	w[i].at = BEGUN;
	state = RUNNING;
	due = LEASE;
	settle = TO_SETTLE;
	sent = 1;
	keyless = (RELEASES && !HAS_KEY(i) -> 1 : keyless);
	age = (age == UNSENT -> 0 : age)
}

/* The UPDATE that takes the row and does not send. */
inline take(i, next) {
	w[i].first = 0;
	next_fence(i);
	due = LEASE;
	w[i].at = next
}

inline postpone(ticks) {
	due = ticks
}

/* The attempt had no effect. Its key was used all the same: age goes on. */
inline release() {
	state = PENDING;
	age = (WINDOW_ANEW -> UNSENT : age);
	sent = 0;
	keyless = 0;
	confirmed = 0;
	settle = 0;
	due = BACKOFF
}

#define MAY_PARK (FINISH_FAILS || confirmed || RELEASES || !(FIND && SETTLES) && !KEY_HOLDS)
inline park(until) {
	assert(MAY_PARK);      /* neither a key nor a settled look-up could tell */
	assert(sent);          /* something was sent */
	state = PARKED;
	due = until
}

inline conclude(what) {
	assert(record == NONE); /* one answer */
	record = what;
	state = DONE;
	verdict = NONE;
	next_fence(NOBODY);
	age = UNSENT;
	sent = 0;
	keyless = 0;
	confirmed = 0;
	settle = 0;
	due = (looked && !NO_RECHECK && !(NO_REFUSAL_RECHECK && what == REFUSED) -> RECHECK : NEVER)
}

/* A success is recorded, or kept where Finish fails, whatever the fence is: the record's primary
 * key decides. */
#define SAME_LIFE(i) (NO_LIFE_CHECK || !w[i].old && state != ABSENT)
#define OPEN (NO_DONE_CHECK || state != DONE)
inline succeed(i, what) {
	if
	:: SAME_LIFE(i) && record != NONE && record != what -> twice = 1
	:: SAME_LIFE(i) && record == NONE && OPEN && !FINISH_FAILS ->
		assert((finished & (1 << what)) == 0); /* Finish runs once for an effect */
		finished = finished | (1 << what);
		conclude(what)
	:: SAME_LIFE(i) && record == NONE && OPEN && FINISH_FAILS && !NO_PARK_AFTER_FINISH ->
		park(NEVER);
		next_fence(NOBODY)
	:: SAME_LIFE(i) && record == NONE && OPEN && FINISH_FAILS && NO_PARK_AFTER_FINISH -> due = BACKOFF
	:: else
	fi
}

/* A refusal is recorded by who holds the fence: in one transaction with the row's change.
 * Beside earlier attempts they are looked for first, where there is Find. */
#define CAN_SETTLE(i) (SETTLES && (w[i].settled || SETTLED_AT_DECLINE && w[i].earlier == 0))
#define REFUSAL_COUNTS(i) (w[i].only || CAN_SETTLE(i) && !FIND || !FIND && !SETTLES || NO_LOOK_BEFORE_REFUSAL)
inline refuse() {
	conclude(REFUSED)
}
