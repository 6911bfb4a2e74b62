package state

// The causes of cooldowns that the limiter knows. Programs may use others.
const (
	CauseDailyQuota  = "daily_quota"
	CauseRateLimited = "rate_limited"
	CauseOverloaded  = "overloaded"
	CauseCaller      = "caller"
)

// maxCause is the length of the longest cause, in bytes.
const maxCause = 64

// KeptCause returns a cause as it is kept: itself, if it is 1 to 64 bytes of a-z, 0-9 and "_", and
// CauseCaller otherwise. Causes get into headers, logs and files.
func KeptCause(cause string) string {
	if cause == "" || len(cause) > maxCause {
		return CauseCaller
	}
	for i := range len(cause) {
		switch b := cause[i]; {
		case 'a' <= b && b <= 'z', '0' <= b && b <= '9', b == '_':
		default:
			return CauseCaller
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

// CooldownReason says in words that a model is in a cooldown, and why if a provider asked for it.
// The texts are constants because a denial must not allocate.
func CooldownReason(cause string) string {
	switch cause {
	case CauseDailyQuota:
		return cools + ": " + dailyQuotaSaid
	case CauseRateLimited:
		return cools + ": " + rateLimitedSaid
	case CauseOverloaded:
		return cools + ": " + overloadedSaid
	}
	return cools
}

// CooldownSaid says in words who asked for a cooldown.
func CooldownSaid(cause string) string {
	switch cause {
	case CauseDailyQuota:
		return dailyQuotaSaid
	case CauseRateLimited:
		return rateLimitedSaid
	case CauseOverloaded:
		return overloadedSaid
	case CauseCaller:
		return "the program asked for it"
	}
	return "the program asked for it: " + cause
}
