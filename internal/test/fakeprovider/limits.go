package fakeprovider

import "time"

const (
	minute = time.Minute
	day    = 24 * time.Hour
)

// Dimension is what a limit limits.
type Dimension int

// The dimensions.
const (
	RPM      Dimension = iota // requests per minute
	TPM                       // tokens per minute, as the dialect counts them
	ITPM                      // input tokens per minute
	OTPM                      // output tokens per minute
	RPD                       // requests per 24 hours, by a sliding window always
	InFlight                  // requests at the same time
	Dimensions
)

var dimensionNames = [Dimensions]string{"RPM", "TPM", "ITPM", "OTPM", "RPD", "in flight"}

// String returns the dimension's name.
func (d Dimension) String() string { return dimensionNames[d] }

// Limits are the most of each dimension; zero is no limit. The largest is 100 million.
type Limits [Dimensions]int

// Enforcement is how limits per minute are enforced.
type Enforcement int

// The enforcements.
const (
	// SlidingWindow counts a request for exactly 60 s from when it arrives.
	SlidingWindow Enforcement = iota
	// TokenBucket has room for the limit, and refills continuously, with the limit in 60 s.
	TokenBucket
)

// Count is how the OpenAI dialect counts tokens. All others count what was used.
type Count int

// The counts.
const (
	// CountUsage counts what the answer will say that was used.
	CountUsage Count = iota
	// CountAdmission counts the larger one of the most output that the request allows and
	// a quarter of its characters; at Azure both together. Nothing is given back.
	CountAdmission
)

// Config is how a model is limited.
type Config struct {
	Limits      Limits
	Enforcement Enforcement
	Count       Count
}

// meter measures one dimension. Times must not go backwards.
type meter interface {
	// used returns what is used up.
	used(now time.Time) int
	// fits reports whether there is room for n.
	fits(now time.Time, n int) bool
	// add uses n up.
	add(now time.Time, n int)
	// wait returns how long it takes until there is room for n if nothing is added;
	// false if there never is.
	wait(now time.Time, n int) (time.Duration, bool)
}

// window is a meter that counts what was added in the last length of time.
type window struct {
	limit   int
	length  time.Duration
	entries []entry
	sum     int
}

type entry struct {
	at time.Time
	n  int
}

func (w *window) used(now time.Time) int {
	gone := 0
	for gone < len(w.entries) && now.Sub(w.entries[gone].at) >= w.length {
		w.sum -= w.entries[gone].n
		gone++
	}
	w.entries = w.entries[gone:]
	return w.sum
}

func (w *window) fits(now time.Time, n int) bool { return w.used(now)+n <= w.limit }

func (w *window) add(now time.Time, n int) {
	w.entries = append(w.entries, entry{now, n})
	w.sum += n
}

func (w *window) wait(now time.Time, n int) (time.Duration, bool) {
	if n > w.limit {
		return 0, false
	}
	over := w.used(now) + n - w.limit
	var last time.Duration
	for _, e := range w.entries {
		if over <= 0 {
			break
		}
		over -= e.n
		last = e.at.Add(w.length).Sub(now)
	}
	return last, true
}

// bucket is a meter that refills continuously. It is exact: what is missing is kept
// in units of a token divided by the nanoseconds of a minute.
type bucket struct {
	limit   int
	missing uint64
	at      time.Time // when missing was so
}

const perToken = uint64(minute)

func (b *bucket) refill(now time.Time) {
	refilled := uint64(min(max(now.Sub(b.at), 0), minute)) * uint64(b.limit)
	b.missing -= min(b.missing, refilled)
	b.at = now
}

func (b *bucket) used(now time.Time) int {
	b.refill(now)
	return int((b.missing + perToken - 1) / perToken)
}

func (b *bucket) fits(now time.Time, n int) bool {
	b.refill(now)
	return n <= b.limit && b.missing <= uint64(b.limit-n)*perToken
}

func (b *bucket) add(now time.Time, n int) {
	b.refill(now)
	b.missing += uint64(n) * perToken
}

func (b *bucket) wait(now time.Time, n int) (time.Duration, bool) {
	if n > b.limit {
		return 0, false
	}
	b.refill(now)
	room := uint64(b.limit-n) * perToken
	if b.missing <= room {
		return 0, true
	}
	limit := uint64(b.limit)
	return time.Duration((b.missing - room + limit - 1) / limit), true
}

// untilFull returns how long it takes until nothing is used any more.
func untilFull(m meter, limit int, now time.Time) time.Duration {
	wait, _ := m.wait(now, limit)
	return wait
}
