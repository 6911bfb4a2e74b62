package account

import (
	"time"

	"dappco.re/go/core/go-ratelimit/internal/ring"
	"dappco.re/go/core/go-ratelimit/internal/state"
)

// Window is the charges of a minute: an exact sliding log. What has left it may lie there until
// the next Prune; whoever reads passes the cut, the instant before which nothing counts.
type Window struct {
	requests ring.Queue[time.Time]
	tokens   ring.Queue[state.Token]
	sums     ring.Sums // the tokens of each entry, parallel to tokens
	oldest   int64     // the instant of the oldest entry; Never for none
	pace     *buckets  // nil where the quota spreads nothing, or nothing was charged since it does
}

// TokensOf returns the tokens of an entry.
func TokensOf(t *state.Token) state.Count {
	return state.Count{Input: t.Input, Output: t.Count - t.Input}
}

// Requests returns how many requests count from the cut on.
func (w *Window) Requests(cut int64) int {
	if cut <= w.oldest {
		return w.requests.Len()
	}
	return w.requestsFrom(cut)
}

func (w *Window) requestsFrom(cut int64) int { return w.requests.Len() - w.requests.Before(cut) }

// Tokens returns the tokens that count from the cut on.
func (w *Window) Tokens(cut int64) state.Count {
	if cut <= w.oldest {
		return w.sums.Total()
	}
	return w.tokensFrom(cut)
}

func (w *Window) tokensFrom(cut int64) state.Count {
	if n := w.tokens.Before(cut); n < w.tokens.Len() {
		return w.sums.Sum(n, w.tokens.Len())
	}
	return state.Count{}
}

// RequestOver returns the instant of the request that must leave before at most budget requests
// are left; ok is false where that many are left already.
func (w *Window) RequestOver(budget int) (instant int64, ok bool) {
	if i := w.requests.Len() - 1 - budget; i >= 0 {
		return w.requests.When(i), true
	}
	return 0, false
}

// TokensOver is RequestOver for tokens of a kind.
func (w *Window) TokensOver(of state.TokenKind, budget int) (instant int64, ok bool) {
	if i := w.sums.LastOver(of, budget); i >= 0 {
		return w.tokens.When(i), true
	}
	return 0, false
}

// IsEmpty reports whether nothing counts from the cut on.
func (w *Window) IsEmpty(cut int64) bool {
	return w.requests.Len() == w.requests.Before(cut) && w.tokens.Len() == w.tokens.Before(cut)
}

// LastAt returns the instant of the last charge; ok is false for none.
func (w *Window) LastAt() (instant int64, ok bool) {
	if n := w.requests.Len(); n > 0 {
		instant, ok = w.requests.When(n-1), true
	}
	if n := w.tokens.Len(); n > 0 {
		instant, ok = max(instant, w.tokens.When(n-1)), true
	}
	return instant, ok
}

// pushTokens adds tokens without a request at the end.
func (w *Window) pushTokens(instant int64, when time.Time, c state.Count) {
	entry := w.tokens.Add(instant)
	entry.Time, entry.Count, entry.Input = when, c.Total(), c.Input
	w.sums.Push(c)
	if w.pace != nil {
		w.pace.PushTokens(instant, c)
	}
	w.oldest = min(w.oldest, instant)
}

// set changes the i-th oldest tokens. Prepaid ones stay in the buckets at their old price.
func (w *Window) set(i int, c state.Count, prepaid bool) {
	w.sums.Set(i, c)
	if w.pace != nil && !prepaid {
		w.pace.SetTokens(i, w.tokens.When(i), c)
	}
	entry := w.tokens.Edit(i)
	entry.Count, entry.Input = c.Total(), c.Input
	w.tokens.Edited(i)
}

// remove removes a request and tokens; a negative place removes nothing.
func (w *Window) remove(request, token int) {
	if request >= 0 {
		w.requests.Remove(request)
		w.pace.RemoveRequest(request)
	}
	if token >= 0 {
		w.tokens.Remove(token)
		w.sums.Remove(token)
		w.pace.RemoveTokens(token)
	}
	w.findOldest()
}

// insert puts a request and its tokens where their instant belongs.
func (w *Window) insert(instant int64, when time.Time, c state.Count, prepaid bool) (request, token int) {
	request = w.requests.Insert(instant, when)
	token = w.tokens.Insert(instant, state.Token{Time: when, Count: c.Total(), Input: c.Input})
	w.sums.Insert(token, c)
	if prepaid {
		w.pace.InsertPrepaidRequest(request, instant)
		w.pace.InsertPrepaidTokens(token, instant)
	} else {
		w.pace.InsertRequest(request, instant)
		w.pace.InsertTokens(token, instant, c)
	}
	w.oldest = min(w.oldest, instant)
	return request, token
}

// prune drops the charges before the cut.
func (w *Window) prune(cut int64) {
	requests, tokens := w.requests.Before(cut), w.tokens.Before(cut)
	w.requests.Drop(requests)
	w.tokens.Drop(tokens)
	w.sums.Drop(tokens)
	w.pace.Drop(requests, tokens)
	w.findOldest()
}

func (w *Window) findOldest() {
	w.oldest = Never
	if w.requests.Len() > 0 {
		w.oldest = w.requests.When(0)
	}
	if w.tokens.Len() > 0 {
		w.oldest = min(w.oldest, w.tokens.When(0))
	}
}

// restore makes charges at instants, which are in order, those of an empty window.
func (w *Window) restore(requests, entries []int64, counts []state.Count, timeAt func(instant int64) time.Time) {
	w.requests.Restore(len(requests), func(i int) (int64, time.Time) { return requests[i], timeAt(requests[i]) })
	w.tokens.Restore(len(entries), func(i int) (int64, state.Token) {
		return entries[i], state.Token{Time: timeAt(entries[i]), Count: counts[i].Total(), Input: counts[i].Input}
	})
	w.sums.Fill(counts)
	w.findOldest()
}

// fill makes copies of entries those of an empty window. Entries from the future count as of now,
// and counts are clamped to their range, because a program may have made them.
func (w *Window) fill(requests []time.Time, entries []state.Token, now Now) {
	present := now.Time()
	instantOf := func(t *time.Time) int64 {
		age := present.Sub(*t)
		if age < 0 {
			*t, age = present, 0
		}
		return now.Instant - int64(age)
	}
	w.requests.Fill(requests, instantOf)
	w.tokens.Fill(entries, func(e *state.Token) int64 {
		e.Count = max(e.Count, 0)
		e.Input = min(max(e.Input, 0), e.Count)
		return instantOf(&e.Time)
	})
	counts := make([]state.Count, w.tokens.Len())
	for i := range counts {
		counts[i] = TokensOf(&w.tokens.Values()[i])
	}
	w.sums.Fill(counts)
	w.findOldest()
}
