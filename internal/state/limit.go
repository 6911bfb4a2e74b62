package state

// Dimension is what a limit of a model limits. The order is that of the fields of Quota
// and of the keys in files.
type Dimension int

// The dimensions. InFlight is the last, so that range InFlight visits those that use up
// with time and that providers report.
const (
	RPM Dimension = iota
	TPM
	RPD
	ITPM
	OTPM
	TPD
	InFlight
	Dimensions // how many there are
)

// Window is how long a charge counts to a limit.
type Window int

// The windows.
const (
	Minute  Window = iota // for a minute
	Day                   // until the day ends
	Settled               // until the call is settled
)

// Limit is one row of the table of the limits: everything that differs from one to the
// next and is not a number.
type Limit struct {
	Field  string    // its name in Go
	Key    string    // its key in a YAML file, and its column in a database
	Window Window    // how long a charge counts to it
	Counts bool      // it counts requests; else tokens
	Tokens TokenKind // which tokens it counts, unless it counts requests
	Code   string    // the code of a decision that it denies

	// The reasons of its refusals. They are constants because a denial must not allocate.
	UsedUp   string // what was charged leaves no room
	External string // the provider says that others use the rest; "" where it reports nothing
	Kept     string // the rest is kept for other classes
	TooLarge string // the request is larger than the limit
	Pace     string // the minute has room and the burst has none; "" where nothing is paced
	Invalid  string // the limit is negative
}

// Limits is the table of the limits, indexed by Dimension. Validation, files, stats,
// refusals and learning read it.
var Limits = [Dimensions]Limit{
	RPM: {
		Field: "MaxRPM", Key: "max_rpm", Window: Minute, Counts: true, Code: "rpm_exceeded",
		UsedUp:   "requests per minute are used up",
		External: "the provider reports fewer requests per minute left",
		Kept:     "the requests per minute that are left are kept for other classes",
		TooLarge: "more requests at once than the limit per minute",
		Pace:     "pace: requests are spread over the minute, and the burst is used up",
		Invalid:  "invalid quota: MaxRPM (max_rpm) is negative",
	},
	TPM: {
		Field: "MaxTPM", Key: "max_tpm", Window: Minute, Tokens: AllTokens, Code: "tpm_exceeded",
		UsedUp:   "tokens per minute are used up",
		External: "the provider reports fewer tokens per minute left",
		Kept:     "the tokens per minute that are left are kept for other classes",
		TooLarge: "the request alone exceeds the tokens per minute",
		Pace:     "pace: tokens are spread over the minute, and the burst is used up",
		Invalid:  "invalid quota: MaxTPM (max_tpm) is negative",
	},
	RPD: {
		Field: "MaxRPD", Key: "max_rpd", Window: Day, Counts: true, Code: "rpd_exceeded",
		UsedUp:   "requests per day are used up",
		External: "the provider reports fewer requests per day left",
		Kept:     "the requests per day that are left are kept for other classes",
		TooLarge: "more requests at once than the limit per day",
		Invalid:  "invalid quota: MaxRPD (max_rpd) is negative",
	},
	ITPM: {
		Field: "MaxITPM", Key: "max_itpm", Window: Minute, Tokens: InputTokens, Code: "itpm_exceeded",
		UsedUp:   "input tokens per minute are used up",
		External: "the provider reports fewer input tokens per minute left",
		Kept:     "the input tokens per minute that are left are kept for other classes",
		TooLarge: "the request alone exceeds the input tokens per minute",
		Pace:     "pace: input tokens are spread over the minute, and the burst is used up",
		Invalid:  "invalid quota: MaxITPM (max_itpm) is negative",
	},
	OTPM: {
		Field: "MaxOTPM", Key: "max_otpm", Window: Minute, Tokens: OutputTokens, Code: "otpm_exceeded",
		UsedUp:   "output tokens per minute are used up",
		External: "the provider reports fewer output tokens per minute left",
		Kept:     "the output tokens per minute that are left are kept for other classes",
		TooLarge: "the request alone exceeds the output tokens per minute",
		Pace:     "pace: output tokens are spread over the minute, and the burst is used up",
		Invalid:  "invalid quota: MaxOTPM (max_otpm) is negative",
	},
	TPD: {
		Field: "MaxTPD", Key: "max_tpd", Window: Day, Tokens: AllTokens, Code: "tpd_exceeded",
		UsedUp:   "tokens per day are used up",
		External: "the provider reports fewer tokens per day left",
		Kept:     "the tokens per day that are left are kept for other classes",
		TooLarge: "the request alone exceeds the tokens per day",
		Invalid:  "invalid quota: MaxTPD (max_tpd) is negative",
	},
	InFlight: {
		Field: "MaxInFlight", Key: "max_in_flight", Window: Settled, Counts: true, Code: "in_flight_exceeded",
		UsedUp:   "calls in flight are at the limit",
		Kept:     "the calls in flight that are left are kept for other classes",
		TooLarge: "more requests at once than the limit of calls in flight",
		Invalid:  "invalid quota: MaxInFlight (max_in_flight) is negative",
	},
}

// DimensionOf returns the dimension whose limit has the given key in files.
func DimensionOf(key string) (of Dimension, ok bool) {
	for of := range Limits {
		if Limits[of].Key == key {
			return Dimension(of), true
		}
	}
	return 0, false
}
