// Package cooldown has the causes for which a limiter admits nothing for a while, and their words.
// The limiter's package uses it, and the packages that explain its decisions.
package cooldown

// The causes of cooldowns that the limiter knows. Programs may use others.
const (
	DailyQuota  = "daily_quota"
	RateLimited = "rate_limited"
	Overloaded  = "overloaded"
	Caller      = "caller"
)

// maxCause is the length of the longest cause, in bytes.
const maxCause = 64

// Cause returns a cause as it is kept: itself, if it is 1 to 64 bytes of a-z, 0-9 and "_", and
// Caller otherwise. Causes get into headers, logs and files.
func Cause(cause string) string {
	if cause == "" || len(cause) > maxCause {
		return Caller
	}
	for i := range len(cause) {
		switch b := cause[i]; {
		case 'a' <= b && b <= 'z', '0' <= b && b <= '9', b == '_':
		default:
			return Caller
		}
	}
	return cause
}

const (
	cools = "the model is in a cooldown"

	dailyQuotaSaid  = "the provider said that the day's quota is used up"
	rateLimitedSaid = "the provider said that its rate limit is exceeded"
	overloadedSaid  = "the provider said that it is overloaded"
)

// Reason says in words that a model is in a cooldown, and why if a provider asked for it. The
// texts are constants because a denial must not allocate.
func Reason(cause string) string {
	switch cause {
	case DailyQuota:
		return cools + ": " + dailyQuotaSaid
	case RateLimited:
		return cools + ": " + rateLimitedSaid
	case Overloaded:
		return cools + ": " + overloadedSaid
	}
	return cools
}

// Said says in words who asked for a cooldown.
func Said(cause string) string {
	switch cause {
	case DailyQuota:
		return dailyQuotaSaid
	case RateLimited:
		return rateLimitedSaid
	case Overloaded:
		return overloadedSaid
	case Caller:
		return "the program asked for it"
	}
	return "the program asked for it: " + cause
}
