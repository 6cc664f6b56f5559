package dedupweb

// NewEvery is New with another time between two readings of the counts.
var NewEvery = newHandler

// Policy is the Content-Security-Policy of every answer.
const Policy = policy
