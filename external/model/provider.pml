/* The provider, and the requests that are on their way to it. */

byte effects = 0;       /* of this life */
byte keyed = NONE;      /* what is known under the key: NONE, a ref, REFUSED, WORKING */
byte key_left = 0;      /* ticks until the key is forgotten, from its first use on */
bit accepted = 0;       /* a request is accepted and has not taken effect */
byte accepted_left = 0; /* the ticks that it has */
byte late[8] = 0;       /* requests that nobody waits for, by the ticks that they have; at 0 any number */

byte plain = 0;         /* requests without the key that nobody waits for, and that may take any time */

#define WAITING (plain + late[0] + late[1] + late[2] + late[3] + late[4] + late[5] + late[6] + late[7])
#define UNDER_WAY (w[0].at == SENDING || w[1].at == SENDING || w[2].at == SENDING || w[3].at == SENDING || accepted || WAITING > 0)

/* Whatever may go wrong costs one of the faults, where they are counted. */
#ifdef PROGRESS
byte faults = PROGRESS;
#define FAULT (faults > 0)
#define SPEND faults--
#else
#define FAULT true
#define SPEND skip
#endif

#define REFUSED_IS_TRUE (REFUSAL_MAY_BE_WRONG || record != REFUSED || effects == 0)

inline happen(ref) {
	effects++;
	ref = 2 * life + effects;
	assert(REPORTED || effects == 1);    /* never twice */
	assert(REPORTED || REFUSED_IS_TRUE)
}

/* The provider counts from the first request that has the key, whatever becomes of that. */
inline use_key() {
	key_left = (KEY && key_left == 0 -> KEPT : key_left)
}

inline decline() {
	use_key();
	keyed = (DECLINES_KEPT -> REFUSED : keyed)
}

/* A request without the key arrives. */
inline arrive_plain(result) {
	if
	:: effects < 2 -> happen(result)
	:: effects == 2 -> result = UNKNOWN
	:: FAULT ->
		SPEND;
		result = REFUSED
	:: FAULT -> /* failed */
		SPEND;
		result = UNKNOWN
	fi
}

/* A request with the key arrives, or one of a tool that has none, and has so many ticks left. */
inline arrive(result, ticks) {
	if
	:: keyed == WORKING -> result = UNKNOWN
	:: keyed == REFUSED -> result = REFUSED
	:: IS_REF(keyed) && !REJECTS -> result = keyed
	:: IS_REF(keyed) && REJECTS -> result = EXISTS
	:: keyed == NONE && effects < 2 ->
		happen(result);
		use_key();
		keyed = (KEY -> result : NONE)
	:: keyed == NONE && effects == 2 -> result = UNKNOWN
	:: keyed == NONE && FAULT ->
		SPEND;
		result = REFUSED;
		decline()
	:: keyed == NONE && FAULT -> /* failed */
		SPEND;
		use_key();
		result = UNKNOWN
	:: KEY && keyed == NONE && FAULT && !accepted ->
		SPEND;
		use_key();
		result = UNKNOWN;
		keyed = WORKING;
		accepted = 1;
		accepted_left = (SETTLES -> GRACE(ticks) : 0)
	fi
}

/* What was accepted takes effect, or fails. */
inline complete(ref) {
	accepted = 0;
	accepted_left = 0;
	if
	:: effects < 2 ->
		happen(ref);
		keyed = (keyed == WORKING -> ref : keyed)
	:: effects == 2
	:: FAULT ->
		SPEND;
		keyed = (keyed == WORKING -> NONE : keyed)
	fi;
	ref = NONE
}
