package fakeprovider

import "time"

// Answer is what a call is answered. The zero value uses no tokens, which [Server]
// takes for one of prompt and, where there is output, one of output.
type Answer struct {
	Usage // what the call uses

	// Delay is how long it takes until the answer begins, and Spread how much longer
	// that may be at random.
	Delay, Spread time.Duration
	// Chunks is in how many parts the text of a stream comes; zero is 4.
	Chunks int
	// Pause is how long it takes between two events of a stream.
	Pause time.Duration

	// Cut cuts the connection after so many events of a stream, or in the middle of
	// an answer that is none; zero does not.
	Cut int
	// Break ends a stream after so many events with the error that the dialect has for
	// it, if it has one; zero does not.
	Break int
	// Stall is how long nothing comes in the middle of the answer.
	Stall time.Duration

	// Status is an error to answer instead, as 429, 500, 503 or 529, and Code what
	// the body has as its cause, as "insufficient_quota"; empty is what is usual for
	// the status. It counts as a request without tokens.
	Status int
	Code   string
	// Header are fields to set in the answer, whatever it is, as "Retry-After".
	Header map[string]string

	// WrongUsage is what to write for each count of the usage instead of the truth,
	// in JSON, as "-5" or "1e300".
	WrongUsage string
	// Garbage answers with 4 KB of random bytes.
	Garbage bool
}

// DefaultAnswer uses a token for each four characters of the prompt, and a random
// number of output tokens up to the most that is allowed, or 200.
func DefaultAnswer(c *Call) Answer {
	var a Answer
	a.Prompt = (c.Characters + 3) / 4
	most := c.MaxOutput
	if most <= 0 {
		most = 200
	}
	a.Output = 1 + c.Rand.IntN(most)
	return a
}

// fill sets what is not set, and what cannot be otherwise.
func (a *Answer) fill(c *Call) {
	a.Prompt = max(a.Prompt, 1)
	if c.Operation == "embeddings" || c.Operation == "embedContent" {
		a.Output, a.Thoughts = 0, 0
	} else {
		a.Output = max(a.Output, 1)
	}
	a.Chunks = max(a.Chunks, 0)
	if a.Chunks == 0 {
		a.Chunks = 4
	}
}
