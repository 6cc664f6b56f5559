/* The clock, what is on its way, the person, the sweep, and the end. */

/* No time passes while a request has none left. With PROGRESS it is a fault to sleep through
 * one's lease. */
#define BOUND(i) (w[i].at == SENDING && REACH != FOREVER)
#define SLEEPS(i) (w[i].at != IDLE && HOLDS_ROW(i) && due == 1)
#ifdef PROGRESS
#define URGENT(i) (BOUND(i) && w[i].left == 1 || SLEEPS(i) && !FAULT)
#else
#define URGENT(i) (BOUND(i) && w[i].left == 1)
#endif
#define ANY_URGENT (URGENT(0) || URGENT(1) || URGENT(2) || URGENT(3) || late[1] > 0 || accepted_left == 1)

/* No time passes where nothing waits for it. */
#define COUNTS(i) (w[i].fresh > 0 || w[i].earlier > 0 || BOUND(i))
#define ANY_COUNTS (due > 0 && due < NEVER || settle > 0 || KEY && age < KEPT || key_left > 0 || accepted_left > 0 \
	|| COUNTS(0) || COUNTS(1) || COUNTS(2) || COUNTS(3) || WAITING > late[0])

inline down(ticks) {
	ticks = (ticks > 0 -> ticks - 1 : 0)
}

inline tick(i) {
#ifdef PROGRESS
	for (i : 0 .. WORKERS - 1) {
		faults = (faults > 0 && SLEEPS(i) -> faults - 1 : faults)
	}
#endif
	due = (due > 0 && due < NEVER -> due - 1 : due);
	down(settle);
	age = (KEY && age < KEPT -> age + 1 : age);
	down(key_left);
	keyed = (key_left == 0 -> NONE : keyed);
	down(accepted_left);
	for (i : 2 .. 7) {
		late[i - 1] = late[i]
	}
	late[7] = 0;
	for (i : 0 .. WORKERS - 1) {
		down(w[i].fresh);
		down(w[i].earlier);
		w[i].left = (BOUND(i) -> w[i].left - 1 : w[i].left)
	}
	i = 0
}

#define LATE_ONE(ticks) :: atomic { late[ticks] > 0 -> late[ticks]--; arrive(ref, ticks); ref = NONE }

/* sent_until has passed. A later verdict does not replace one that is not carried out. */
#define ENDED (w[0].fresh == 0 && w[1].fresh == 0 && w[2].fresh == 0 && w[3].fresh == 0)
#define MAY_BE_RESOLVED ((state == PARKED || state == RUNNING && ENDED) && verdict == NONE && !UNDER_WAY)

#define NOTHING_KNOWN (!UNDER_WAY && key_left == 0)
#define MAY_FORGET (REUSE && life == 0 && state == DONE && (due == NEVER || FORGET_BEFORE_RECHECK) && NOTHING_KNOWN)

active proctype world() {
	byte i, ref;
	atomic {
		for (i : 0 .. WORKERS - 1) {
			run worker(i)
		}
		i = 0
	}
end:
	do
	:: d_step { !ANY_URGENT && ANY_COUNTS -> tick(i) }

	/* What nobody waits for. */
	LATE_ONE(0)
	LATE_ONE(1)
	LATE_ONE(2)
	LATE_ONE(3)
	LATE_ONE(4)
	LATE_ONE(5)
	LATE_ONE(6)
	LATE_ONE(7)
	:: atomic { plain > 0 -> plain--; arrive_plain(ref); ref = NONE }

	/* It forgets a key that it has rejected, when nothing is under way. */
	:: d_step { REJECTS && confirmed && IS_REF(keyed) && !UNDER_WAY ->
		keyed = NONE;
		key_left = 0
	}
	:: atomic { accepted -> complete(ref) }

	/* The person: Never, Refuse and Happened of a parked operation, or of a running one whose
	 * attempts have ended; Refuse of a pending one. */
	:: d_step { HUMAN && MAY_BE_RESOLVED && effects == 0 ->
		next_fence(NOBODY);
		state = PENDING;
		age = (WINDOW_ANEW -> UNSENT : age);
		sent = 0;
		keyless = 0;
		confirmed = 0;
		settle = 0;
		looked = 1;
		due = 0
	}
	:: d_step { HUMAN && MAY_BE_RESOLVED ->
		next_fence(NOBODY);
		state = PARKED;
		verdict = (effects == 0 -> REFUSE : HAPPENED);
		looked = (effects == 0 && sent -> 1 : looked);
		due = 0
	}
	:: d_step { HUMAN && state == PENDING && verdict == NONE ->
		next_fence(NOBODY);
		verdict = REFUSE;
		due = 0
	}

	/* The sweep: the record is forgotten, and after it the row. */
	:: d_step { MAY_FORGET && record != NONE ->
		record = NONE
	}
	:: d_step { MAY_FORGET && record == NONE ->
		assert(effects < 2 || twice);
		state = ABSENT;
		due = NEVER;
		looked = 0;
		twice = 0;
		effects = 0;
		life = 1;
		for (i : 0 .. WORKERS - 1) {
			w[i].old = (w[i].at != IDLE)
		}
		i = 0
	}

	/* Nothing moves any more. */
	:: atomic { timeout ->
		assert(state == DONE || state == PARKED);
		assert(state == PARKED || record != NONE);
		assert(!IS_REF(record) || effects > 0);
		assert(effects < 2 || twice);
		assert(REFUSED_IS_TRUE || twice);
		break
	}
	od
}
