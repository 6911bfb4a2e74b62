package llmhttp

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

// refuse returns the result of RoundTrip for a call that was not admitted.
func (t *Transport) refuse(f *flight, err error) (*http.Response, error) {
	t.report(f, Event{Kind: EventRefused, Err: err})
	var limit *ratelimit.LimitError
	if t.RefuseWithError || !errors.As(err, &limit) {
		return nil, err
	}
	return refusal(f.call.Request, limit, f.adapter.Refusal(refusalMessage(limit))), nil
}

// The headers that mark a response that the Transport made itself. Their values are the code of
// the decision, the cause of the cooldown that denied, if it was one, the model that denied and its
// pool that did, both quoted, and what ended the wait, by its name in endings.
const (
	refusedHeader = "X-Go-Ratelimit-Refused"
	causeHeader   = "X-Go-Ratelimit-Cause"
	modelHeader   = "X-Go-Ratelimit-Model"
	poolHeader    = "X-Go-Ratelimit-Pool"
	endingHeader  = "X-Go-Ratelimit-Ending"
)

// refusedText begins the message of a refusal. The codes follow in parentheses: that of the
// decision first, then the cause of a cooldown and what ended the wait. The model, quoted, comes
// behind them, and its pool where that denied. So a refusal is found in errors that keep only the
// text of an answer.
const refusedText = "go-ratelimit: the call was not sent"

// endings are the errors that a LimitError unwraps to, by their names in responses.
var endings = []struct {
	name string
	err  error
}{
	{"max_wait", ratelimit.ErrMaxWait},
	{"deadline", context.DeadlineExceeded},
	{"never_fits", ratelimit.ErrNeverFits},
	{"queue_full", ratelimit.ErrQueueFull},
}

// endingOf returns the name of what ended a wait; empty for an error that has none.
func endingOf(err error) string {
	for _, e := range endings {
		if errors.Is(err, e.err) {
			return e.name
		}
	}
	return ""
}

// endingNamed returns what ended a wait by its name; nil for an unknown one.
func endingNamed(name string) error {
	for _, e := range endings {
		if e.name == name {
			return e.err
		}
	}
	return nil
}

// problemOf returns the problem that a refusal is.
func problemOf(limit *ratelimit.LimitError) *Problem {
	p := &Problem{
		Kind: NotSent, Status: http.StatusTooManyRequests, Code: string(limit.Decision.Code),
		Model: modelName(limit.Model), Err: limit.Unwrap(), Cause: limit.Decision.Cause,
		Pool: modelName(limit.Decision.Pool),
	}
	if !limit.Decision.Never {
		p.RetryAfter = max(limit.Decision.RetryAfter, 0)
	}
	return p
}

// refusalMessage returns the text of a refusal as users see it.
func refusalMessage(limit *ratelimit.LimitError) string {
	d := &limit.Decision
	codes := make([]string, 0, 3)
	for _, code := range []string{string(d.Code), string(d.Cause), endingOf(limit)} {
		if code != "" {
			codes = append(codes, code)
		}
	}
	denied := strconv.Quote(limit.Model)
	if d.Pool != "" {
		denied += poolText + strconv.Quote(d.Pool)
	}
	message := fmt.Sprintf("%s (%s): model %s: %s",
		refusedText, strings.Join(codes, ", "), denied, d.Reason)
	if d.RetryAfter > 0 && !d.Never {
		message += fmt.Sprintf("%s%v", refusedFree, d.RetryAfter.Round(time.Millisecond))
	}
	return message + fmt.Sprintf(": %v", limit.Unwrap())
}

// poolText stands before the pool that denied in the message of a refusal.
const poolText = ", pool "

// refusedFree stands before the time at which there is room in the message of a refusal.
const refusedFree = ", free in "

// refusalIn returns the refusal that the headers of a response tell, without its times; nil for
// the response of another.
func refusalIn(h http.Header) *Problem {
	code := h.Get(refusedHeader)
	if !isName(code, maxCode) {
		return nil
	}
	p := &Problem{Kind: NotSent, Code: code, Err: endingNamed(h.Get(endingHeader))}
	if cause := h.Get(causeHeader); isName(cause, maxCode) {
		p.Cause = ratelimit.Cause(cause)
	}
	if model, err := strconv.Unquote(h.Get(modelHeader)); err == nil {
		p.Model = modelName(model)
	}
	if pool, err := strconv.Unquote(h.Get(poolHeader)); err == nil {
		p.Pool = modelName(pool)
	}
	return p
}

// maxRefusal bounds the bytes of a text that are examined after refusedText.
const maxRefusal = 4 << 10

// refusalText returns the refusal whose message is in a text, which may be quoted in JSON; nil if
// there is none.
func refusalText(text string) *Problem {
	_, text, found := strings.Cut(text, refusedText)
	if !found {
		return nil
	}
	text = text[:min(len(text), maxRefusal)]
	p := &Problem{Kind: NotSent, Status: http.StatusTooManyRequests}
	if list, rest, ok := strings.Cut(text, "): model "); ok && strings.HasPrefix(list, " (") {
		for i, code := range strings.Split(list[2:], ", ") {
			switch {
			case i == 0 && isName(code, maxCode):
				p.Code = code
			case i == 1 && p.Code == string(ratelimit.DecisionCooldown) && isName(code, maxCode):
				p.Cause = ratelimit.Cause(code)
			case i > 0:
				p.Err = cmp.Or(endingNamed(code), p.Err)
			}
		}
		text = rest
	}
	if strings.HasPrefix(text, `\"`) { // the message as it stands in a body
		text = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(text)
	}
	p.Model, text = quotedName(text)
	if rest, ok := strings.CutPrefix(text, poolText); ok {
		p.Pool, text = quotedName(rest)
	}
	if _, after, ok := strings.Cut(text, refusedFree); ok {
		end := strings.IndexFunc(after, func(r rune) bool {
			return !strings.ContainsRune("0123456789.hmsnµu", r)
		})
		if end < 0 {
			end = len(after)
		}
		if d, err := time.ParseDuration(after[:end]); err == nil && d > 0 {
			p.RetryAfter = min(d, maxDay)
		}
	}
	return p
}

// quotedName returns the quoted name at the beginning of a text, and the rest of it; an empty name
// and the whole text if there is none.
func quotedName(text string) (name, rest string) {
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", text
	}
	if name, err = strconv.Unquote(quoted); err != nil {
		return "", text
	}
	return modelName(name), text[len(quoted):]
}

// refusal returns a response that SDKs take for one of the provider.
func refusal(req *http.Request, limit *ratelimit.LimitError, body []byte) *http.Response {
	h := http.Header{
		"Content-Type":   {"application/json"},
		"Content-Length": {strconv.Itoa(len(body))},
		// OpenAI's and Anthropic's SDKs check it before they retry.
		"X-Should-Retry": {"false"},
		refusedHeader:    {string(limit.Decision.Code)},
		modelHeader:      {strconv.QuoteToASCII(limit.Model)},
	}
	if ending := endingOf(limit); ending != "" {
		h.Set(endingHeader, ending)
	}
	if pool := limit.Decision.Pool; pool != "" {
		h.Set(poolHeader, strconv.QuoteToASCII(pool))
	}
	if cause := limit.Decision.Cause; cause != "" {
		h.Set(causeHeader, string(cause))
	}
	if d := limit.Decision.RetryAfter; d > 0 && !limit.Decision.Never {
		h.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(d.Seconds())), 10))
		h.Set("Retry-After-Ms", strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10))
	}
	return &http.Response{
		Status:        "429 " + http.StatusText(http.StatusTooManyRequests),
		StatusCode:    http.StatusTooManyRequests,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        h,
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       req,
	}
}
