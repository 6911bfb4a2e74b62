package fakeprovider

import "time"

// maxLimit is the largest limit: the meters' sums of it fit into 64 bits.
const maxLimit = 100_000_000

// Usage is a number of tokens of each kind.
type Usage struct {
	Prompt     int // all input, cached or not
	CacheRead  int // of the input, what was read from a cache
	CacheWrite int // of the input, what was written to a cache
	Output     int // all output
	Thoughts   int // of the output, what was reasoning
}

func (u *Usage) add(v Usage) {
	u.Prompt += v.Prompt
	u.CacheRead += v.CacheRead
	u.CacheWrite += v.CacheWrite
	u.Output += v.Output
	u.Thoughts += v.Thoughts
}

// Stats are what a model has counted.
type Stats struct {
	Requests int             // all that arrived
	Refused  int             // of them, how many came over a limit
	Over     [Dimensions]int // how many came over each; one can come over several
	Failed   int             // how many were answered with an error because [Answer] says so
	Gone     int             // whose client went away before the answer began
	InFlight int             // those not answered yet
	Most     int             // the most that were in flight
	Counted  [Dimensions]int // what was counted to each dimension, limited or not
	Used     Usage           // of the requests that were not refused and did not fail
	Reported Usage           // what the answers said that was used, where they said it truly
	Reports  int             // how many answers did
}

// Arrival is a request that arrived.
type Arrival struct {
	Time    time.Time
	Charge  [Dimensions]int // what it counts to each dimension
	Refused bool
}

// model is a model's limits and what was counted. Its server's lock guards it.
type model struct {
	name     string
	config   Config
	meters   [InFlight]meter // nil without a limit
	stats    Stats
	arrivals []Arrival
}

func newModel(name string, config Config) *model {
	m := &model{name: name, config: config}
	for d, limit := range config.Limits {
		if limit < 0 || limit > maxLimit {
			panic("fakeprovider: a limit out of range")
		}
		switch d := Dimension(d); {
		case limit == 0 || d == InFlight:
		case d == RPD:
			m.meters[d] = &window{limit: limit, length: day}
		case config.Enforcement == TokenBucket:
			m.meters[d] = &bucket{limit: limit}
		default:
			m.meters[d] = &window{limit: limit, length: minute}
		}
	}
	return m
}

// refusal is why a request was refused.
type refusal struct {
	dimension   Dimension // the first one that it came over
	limit, used int
	requested   int
	wait        time.Duration // until it would fit
	never       bool          // it is larger than the limit
}

// arrive counts a request, or returns why it is refused.
func (m *model) arrive(now time.Time, charge [Dimensions]int) *refusal {
	m.stats.Requests++
	var why *refusal
	refuse := func(d Dimension, used int, wait time.Duration, ever bool) {
		m.stats.Over[d]++
		if why == nil {
			why = &refusal{dimension: d, limit: m.config.Limits[d], used: used, requested: charge[d]}
		}
		why.wait = max(why.wait, wait)
		why.never = why.never || !ever
	}
	for d, meter := range m.meters {
		if meter != nil && !meter.fits(now, charge[d]) {
			wait, ever := meter.wait(now, charge[d])
			refuse(Dimension(d), meter.used(now), wait, ever)
		}
	}
	if limit := m.config.Limits[InFlight]; limit > 0 && m.stats.InFlight+1 > limit {
		refuse(InFlight, m.stats.InFlight, time.Second, true)
	}
	m.arrivals = append(m.arrivals, Arrival{now, charge, why != nil})
	if why != nil {
		m.stats.Refused++
		return why
	}
	for d, meter := range m.meters {
		if meter != nil {
			meter.add(now, charge[d])
		}
	}
	for d, n := range charge {
		m.stats.Counted[d] += n
	}
	m.stats.InFlight++
	m.stats.Most = max(m.stats.Most, m.stats.InFlight)
	return nil
}

// charge returns what a call counts to each dimension.
func charge(count Count, headers Headers, c *Call, a *Answer) (n [Dimensions]int) {
	n[RPM], n[RPD], n[InFlight] = 1, 1, 1
	u := a.Usage
	if a.Status != 0 {
		u = Usage{} // a failure is a request, and no tokens
	}
	n[ITPM], n[OTPM] = u.Prompt, u.Output
	switch c.Dialect {
	case Anthropic:
		n[ITPM] -= u.CacheRead
		n[TPM] = n[ITPM] + n[OTPM]
	case Gemini:
		n[TPM] = u.Prompt
	default:
		if headers == GroqHeaders {
			n[ITPM] -= u.CacheRead
		}
		n[TPM] = n[ITPM] + n[OTPM]
	}
	if count == CountAdmission && c.Dialect == OpenAI {
		guess := (c.Characters + 3) / 4
		n[TPM] = max(guess, c.MaxOutput)
		if headers == AzureHeaders {
			n[TPM] = guess + c.MaxOutput
		}
	}
	return n
}
