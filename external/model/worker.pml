/* A process: a caller, or Recover. */

/* It takes what is due. With READ_FIRST it has read the row before that. */
#define CAN_TAKE(i) (w[i].current && due == 0 && (STATE_AS_READ && state != DONE || state == w[i].seen))
#if READ_FIRST
#define TAKES(i, what) (w[i].at == READ && w[i].seen == what && CAN_TAKE(i))
#else
#define TAKES(i, what) (w[i].at == IDLE && due == 0 && state == what && !(ONLY_RECOVERER && i < CALLERS))
#endif
#define TAKE_HOLDS(i) (JUDGED_BEFORE_TAKE && w[i].held || !JUDGED_BEFORE_TAKE && KEY_HOLDS && (HAS_KEY(i) || !RELEASES))
#define LOOK_HOLDS(i) ((HAS_KEY(i) || !RELEASES) && (JUDGED_AT_LOOK && w[i].held || !JUDGED_AT_LOOK && KEY_HOLDS || SETTLED_AT_SEND && w[i].held && HAS_SETTLED))
#define PLAIN(i) (RELEASES && i == 0) /* its requests have no key */
#define LOOK_SETTLED(i) (SETTLED_AT_ANSWER && HAS_SETTLED || w[i].settled)

inline answered(i, what) {
	w[i].left = 0;
	w[i].answer = what;
	w[i].at = ANSWERED
}

proctype worker(byte i) {
end:
	do

	/* The claim, of Do or of Accept. */
	:: d_step { w[i].at == IDLE && i < CALLERS && state == ABSENT && record == NONE ->
		begin(i);
		w[i].only = 1;
		first = NO_FENCE_SEQUENCE;
		w[i].first = NO_FENCE_SEQUENCE
	}
	:: d_step { w[i].at == IDLE && i < CALLERS && state == ABSENT && record == NONE ->
		next_fence(NOBODY);
		state = PENDING;
		due = 0
	}

	/* Due: look, send, or park. */
	:: d_step { READ_FIRST && w[i].at == IDLE && due == 0 && state != DONE ->
		w[i].seen = state;
		w[i].current = 1;
		w[i].held = (JUDGED_BEFORE_TAKE && KEY_HOLDS);
		w[i].at = READ
	}
	:: d_step { w[i].at == READ && !CAN_TAKE(i) ->
		idle(i)
	}
	:: d_step { TAKES(i, PENDING) && verdict == NONE ->
		begin(i);
		w[i].only = 1
	}
	:: d_step { (TAKES(i, PENDING) || TAKES(i, PARKED)) && verdict != NONE ->
		take(i, JUDGING)
	}
	:: d_step { FIND && (TAKES(i, RUNNING) || TAKES(i, PARKED) && verdict == NONE) ->
		take(i, LOOKING);
		w[i].settled = HAS_SETTLED;
		w[i].held = ((JUDGED_AT_LOOK || SETTLED_AT_SEND) && KEY_HOLDS)
	}
	:: d_step { !FIND && TAKES(i, RUNNING) && TAKE_HOLDS(i) ->
		w[i].settled = HAS_SETTLED;
		begin(i)
	}
	:: d_step { !FIND && TAKES(i, RUNNING) && !TAKE_HOLDS(i) ->
		next_fence(NOBODY);
		park(NEVER);
		idle(i)
	}
	/* What another release can find out is left to it. */
	:: d_step { PLAIN(i) && !FIND && TAKES(i, RUNNING) && !keyless ->
		next_fence(NOBODY);
		postpone(1);
		idle(i)
	}

	:: d_step { GIVES_UP && (TAKES(i, RUNNING) || TAKES(i, PENDING) && age != UNSENT) && verdict == NONE ->
		next_fence(NOBODY);
		state = PARKED;
		due = (FIND -> BACKOFF : NEVER);
		idle(i)
	}

	/* The attempt: the check of the lease, and what becomes of the request. */
	:: d_step { w[i].at == BEGUN && (w[i].fresh > 0 || NO_LEASE_CHECK) ->
		w[i].left = (REACH == FOREVER -> FOREVER : REACH - (LEASE - w[i].fresh));
		w[i].fresh = 0;
		w[i].at = SENDING
	}
	:: d_step { w[i].at == BEGUN && w[i].fresh == 0 -> /* it was paused, and sends nothing */
		answered(i, NOTDONE)
	}
	:: atomic { w[i].at == SENDING && PLAIN(i) ->
		arrive_plain(w[i].answer);
		w[i].left = 0;
		w[i].at = ANSWERED
	}
	:: atomic { w[i].at == SENDING && !PLAIN(i) ->
		arrive(w[i].answer, w[i].left);
		w[i].left = 0;
		w[i].at = ANSWERED
	}
	:: atomic { w[i].at == SENDING && PLAIN(i) && FAULT -> /* the answer is lost */
		SPEND;
		arrive_plain(w[i].answer);
		answered(i, UNKNOWN)
	}
	:: atomic { w[i].at == SENDING && !PLAIN(i) && FAULT ->
		SPEND;
		arrive(w[i].answer, w[i].left);
		answered(i, UNKNOWN)
	}
	:: d_step { w[i].at == SENDING && FAULT && WAITING < ORPHANS -> /* no answer in time */
		SPEND;
		plain = (PLAIN(i) -> plain + 1 : plain);
		late[GRACE(w[i].left)] = (PLAIN(i) -> late[GRACE(w[i].left)] : late[GRACE(w[i].left)] + 1);
		answered(i, UNKNOWN)
	}
	:: d_step { w[i].at == SENDING && FAULT -> /* the request is lost */
		SPEND;
		answered(i, UNKNOWN)
	}
	:: d_step { w[i].at == SENDING && FAULT -> /* 429, or no connection */
		SPEND;
		use_key();
		answered(i, NOTDONE)
	}
	/* The provider's client has sent it and has no answer, sends it again, and has one. */
	:: d_step { NO_NOTDONE_MEMORY && w[i].at == SENDING && FAULT && WAITING < ORPHANS ->
		SPEND;
		late[GRACE(w[i].left)]++;
		answered(i, NOTDONE)
	}
	:: d_step { NO_REFUSAL_MEMORY && w[i].at == SENDING && (keyed == NONE || keyed == REFUSED) && FAULT && WAITING < ORPHANS ->
		SPEND;
		late[GRACE(w[i].left)]++;
		decline();
		answered(i, REFUSED)
	}
	/* The lease is extended, before the provider has decided or before its answer is here. */
	:: d_step { HEARTBEAT && !w[i].extended && HOLDS_ROW(i) && state == RUNNING &&
		(w[i].at == SENDING && w[i].left + LEASE >= REACH || w[i].at == ANSWERED && w[i].answer <= REFUSED) ->
		w[i].extended = 1;
		due = LEASE;
		settle = TO_SETTLE;
		w[i].left = (SETTLES && w[i].at == SENDING -> REACH : w[i].left);
		w[i].settled = (w[i].settled || SETTLED_AT_EXTENSION && SETTLES && w[i].earlier == 0)
	}
	:: d_step { w[i].at == SENDING && FAULT && WAITING < ORPHANS -> /* it dies, and the request is on its way */
		SPEND;
		plain = (PLAIN(i) -> plain + 1 : plain);
		late[w[i].left] = (PLAIN(i) -> late[w[i].left] : late[w[i].left] + 1);
		idle(i)
	}

	/* The attempt's answer. */
	:: d_step { w[i].at == ANSWERED && IS_REF(w[i].answer) ->
		succeed(i, w[i].answer);
		idle(i)
	}
	:: d_step { w[i].at == ANSWERED && !IS_REF(w[i].answer) && !MINE(i) ->
		idle(i)
	}
	:: d_step { w[i].at == ANSWERED && w[i].answer == UNKNOWN && MINE(i) ->
		if
		:: FIND || KEY_HOLDS && !PLAIN(i) ->
			settle = (SETTLES -> SETTLE : 0); /* sent_until is now */
			postpone(BACKOFF)
		:: else ->
			park(NEVER)
		fi;
		idle(i)
	}
	:: d_step { w[i].at == ANSWERED && w[i].answer == EXISTS && MINE(i) ->
		confirmed = 1;
		if
		:: FIND ->
			settle = (SETTLES -> SETTLE : 0);
			due = LEASE;
			w[i].settled = 0;
			w[i].answer = NONE;
			w[i].at = LOOKING
		:: else ->
			park(NEVER);
			idle(i)
		fi
	}
	:: d_step { w[i].at == ANSWERED && w[i].answer == NOTDONE && MINE(i) ->
		if
		:: w[i].only -> release()
		:: else -> postpone(BACKOFF)
		fi;
		idle(i)
	}
	:: d_step { w[i].at == ANSWERED && w[i].answer == REFUSED && MINE(i) ->
		if
		:: REFUSAL_COUNTS(i) ->
			refuse();
			idle(i)
		:: !REFUSAL_COUNTS(i) && FIND ->
			w[i].declined = 1;
			w[i].answer = NONE;
			w[i].at = LOOKING
		:: !REFUSAL_COUNTS(i) && !FIND ->
			settle = w[i].earlier; /* this attempt has ended and has no effect */
			postpone(settle);
			idle(i)
		fi
	}

	/* A look-up: what is there now. */
	:: atomic { w[i].at == LOOKING ->
		if
		:: effects == 0 || REJECTS -> w[i].answer = NOTFOUND
		:: effects > 0 -> w[i].answer = 2 * life + 1
		:: effects > 1 -> w[i].answer = 2 * life + 2
		:: FAULT -> SPEND; w[i].answer = FAILED
		fi;
		w[i].more = (effects > 1 && IS_REF(w[i].answer));
		w[i].at = LOOKED
	}
	:: d_step { w[i].at == LOOKED && IS_REF(w[i].answer) ->
		twice = (w[i].more && !w[i].old -> 1 : twice);
		succeed(i, w[i].answer);
		idle(i)
	}
	:: d_step { w[i].at == LOOKED && !IS_REF(w[i].answer) && !MINE(i) ->
		idle(i)
	}
	:: d_step { w[i].at == LOOKED && w[i].answer == FAILED && MINE(i) ->
		postpone(BACKOFF);
		idle(i)
	}
	:: atomic { w[i].at == LOOKED && w[i].answer == NOTFOUND && MINE(i) && state == PARKED ->
		if
		:: FAULT -> SPEND; due = BACKOFF /* looked for on */
		:: due = NEVER
		fi;
		idle(i)
	}
	:: d_step { w[i].at == LOOKED && w[i].answer == NOTFOUND && MINE(i) && state == RUNNING && w[i].declined ->
		if
		:: w[i].settled || !SETTLES ->
			looked = 1;
			refuse()
		:: !w[i].settled && SETTLES ->
			settle = w[i].earlier;
			postpone(settle)
		fi;
		idle(i)
	}
	:: d_step { w[i].at == LOOKED && w[i].answer == NOTFOUND && MINE(i) && state == RUNNING && !w[i].declined ->
		w[i].settled = LOOK_SETTLED(i);
		w[i].answer = NONE;
		if
		:: confirmed && !EXISTS_FORGOTTEN -> /* it is there, and cannot be seen yet */
			if
			:: postpone(BACKOFF)
			:: park(NEVER)
			fi;
			idle(i)
		:: (!confirmed || EXISTS_FORGOTTEN) && (LOOK_HOLDS(i) || w[i].settled) ->
			looked = 1;
			w[i].held = 0;
			begin(i)
		:: (!confirmed || EXISTS_FORGOTTEN) && !(LOOK_HOLDS(i) || w[i].settled) && SETTLES ->
			postpone(settle);
			idle(i)
		:: (!confirmed || EXISTS_FORGOTTEN) && !(LOOK_HOLDS(i) || w[i].settled) && !SETTLES ->
			park(0);
			idle(i)
		fi
	}

	/* The recheck: a look-up after the answer, by whoever has taken the row. */
	:: d_step { w[i].at == IDLE && due == 0 && state == DONE ->
		take(i, RECHECKING)
	}
	:: atomic { w[i].at == RECHECKING ->
		if
		:: w[i].more = (!w[i].old && (effects > 1 || record == REFUSED && effects > 0))
		:: FAULT -> SPEND; w[i].answer = FAILED
		fi;
		w[i].at = RECHECKED
	}
	:: d_step { w[i].at == RECHECKED ->
		twice = (w[i].more && !w[i].old -> 1 : twice);
		due = (HOLDS_ROW(i) && state == DONE -> (w[i].answer == FAILED -> BACKOFF : NEVER) : due);
		idle(i)
	}

	/* A verdict is carried out. */
	:: d_step { w[i].at == JUDGING ->
		if
		:: HOLDS_ROW(i) && verdict == REFUSE && record == NONE -> refuse()
		:: HOLDS_ROW(i) && verdict == HAPPENED && record == NONE -> succeed(i, 2 * life + 1)
		:: else
		fi;
		idle(i)
	}

	/* It dies. */
	:: d_step { w[i].at != IDLE && w[i].at != SENDING && FAULT ->
		SPEND;
		idle(i)
	}
	od
}
