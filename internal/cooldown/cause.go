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

// Reason says in words why a model is in a cooldown. The texts are constants because a denial
// must not allocate.
func Reason(cause string) string {
	switch cause {
	case DailyQuota:
		return "the model is in a cooldown: the provider said that the day's quota is used up"
	case RateLimited:
		return "the model is in a cooldown: the provider said that its rate limit is exceeded"
	case Overloaded:
		return "the model is in a cooldown: the provider said that it is overloaded"
	}
	return "the model is in a cooldown"
}
