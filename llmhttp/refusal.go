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
	"unicode"
	"unicode/utf8"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp/internal/headers"
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

// Refusal returns the answer of a [Transport] to a request that the limiter refused, for a program
// that refuses calls by itself, such as a gateway whose own line is full: status 429 in the format
// of the API to which the request belongs, or is most like, with the time of the decision. It reads
// nothing of the body, and does not close it.
func Refusal(req *http.Request, limit *ratelimit.LimitError) *http.Response {
	a, _ := new(Transport).recognize(req, new(Call))
	if a == nil {
		a = likelyAdapter(req)
	}
	return refusal(req, limit, a.Refusal(refusalMessage(limit)))
}

// The headers that mark a response that the Transport made itself. Their values are the code of
// the decision, the cause of the cooldown that denied, if it was one, the model that denied, its
// pool that did and the reason in words, all three quoted, and what ended the wait, by its name in
// endings.
const (
	refusedHeader = "X-Go-Ratelimit-Refused"
	causeHeader   = "X-Go-Ratelimit-Cause"
	modelHeader   = "X-Go-Ratelimit-Model"
	poolHeader    = "X-Go-Ratelimit-Pool"
	reasonHeader  = "X-Go-Ratelimit-Reason"
	endingHeader  = "X-Go-Ratelimit-Ending"
	budgetHeader  = "X-Go-Ratelimit-Budget" // "true" where a limit of spend denied
)

// ownMark is the key of a header that no connection carries, because its name is not valid. Only a
// response that a Transport of this program made has it, and not one that a gateway passes on.
const ownMark = " go-ratelimit"

// refusedText begins the message of a refusal. The codes follow in parentheses: that of the
// decision first, then the cause of a cooldown, what ended the wait, and overBudget. The model,
// quoted, comes behind them, and its pool where that denied. So a refusal is found in errors that
// keep only the text of an answer.
const refusedText = "go-ratelimit: the call was not sent"

// overBudget is the code of a refusal where a limit of spend denied, which the first one may not
// tell.
const overBudget = "over_budget"

// endings are the errors that a LimitError unwraps to, by their names in responses.
var endings = []struct {
	name string
	err  error
}{
	{"max_wait", ratelimit.ErrMaxWait},
	{"deadline", context.DeadlineExceeded},
	{"never_fits", ratelimit.ErrNeverFits},
	{"queue_full", ratelimit.ErrQueueFull},
	{"signature_age", ErrSignatureAge},
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
		Pool: modelName(limit.Decision.Pool), Reason: reasonOf(&limit.Decision),
		overBudget: errors.Is(limit, ratelimit.ErrBudget),
	}
	if !limit.Decision.Never {
		p.RetryAfter = max(limit.Decision.RetryAfter, 0)
	}
	return p
}

// refusalMessage returns the text of a refusal as users see it.
func refusalMessage(limit *ratelimit.LimitError) string {
	d := &limit.Decision
	codes := make([]string, 0, 4)
	all := [...]string{string(d.Code), string(d.Cause), endingOf(limit), ""}
	if d.OverBudget && d.Code != ratelimit.DecisionSpendLimit {
		all[3] = overBudget
	}
	for _, code := range all {
		if code != "" {
			codes = append(codes, code)
		}
	}
	message := fmt.Sprintf("%s (%s): %s: %s", refusedText, strings.Join(codes, ", "), denied(limit.Model, d.Pool), reasonOf(d))
	if d.RetryAfter > 0 && !d.Never {
		message += fmt.Sprintf("%s%v", refusedFree, d.RetryAfter.Round(time.Millisecond))
	}
	return message + fmt.Sprintf(": %v", limit.Unwrap())
}

// denied names a model, and its pool if that denied.
func denied(model, pool string) string {
	text := modelText + strconv.Quote(model)
	if pool != "" {
		text += poolText + strconv.Quote(pool)
	}
	return text
}

// reasonOf returns the reason of a decision without the name of the pool, which stands beside it.
func reasonOf(d *ratelimit.Decision) string {
	if rest, ok := strings.CutPrefix(d.Reason, "the pool "); ok && d.Pool != "" {
		if name, err := strconv.QuotedPrefix(rest); err == nil && strings.HasPrefix(rest[len(name):], ": ") {
			return rest[len(name)+2:]
		}
	}
	return d.Reason
}

// modelText stands before the model in the message of a refusal.
const modelText = "model "

// poolText stands before the pool that denied in the message of a refusal.
const poolText = ", pool "

// refusedFree stands before the time at which there is room in the message of a refusal.
const refusedFree = ", free in "

// refusalIn returns the refusal that a response of this program tells; nil for the response of
// another.
func refusalIn(resp *http.Response) *Problem {
	h := resp.Header
	code := h.Get(refusedHeader)
	if h[ownMark] == nil || !isName(code, maxCode) {
		return nil
	}
	p := &Problem{
		Kind: NotSent, Status: resp.StatusCode, Code: code,
		Err: endingNamed(h.Get(endingHeader)), RetryAfter: refusedFor(h, time.Now()),
		overBudget: h.Get(budgetHeader) == "true",
	}
	if cause := h.Get(causeHeader); isName(cause, maxCode) {
		p.Cause = ratelimit.Cause(cause)
	}
	if model, err := strconv.Unquote(h.Get(modelHeader)); err == nil {
		p.Model = modelName(model)
	}
	if pool, err := strconv.Unquote(h.Get(poolHeader)); err == nil {
		p.Pool = modelName(pool)
	}
	if reason, err := strconv.Unquote(h.Get(reasonHeader)); err == nil {
		p.Reason = readReason(reason)
	}
	return p
}

// refusedFor returns the time that the headers of a refusal name. A provider's is bounded; that of
// a budget lasts for up to a month.
func refusedFor(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseInt(h.Get(millisecondsHeader), 10, 64); err == nil && ms > 0 && ms <= int64(maxRefused/time.Millisecond) {
		return time.Duration(ms) * time.Millisecond
	}
	d, _ := headers.RetryAfter(h, now)
	return d
}

// millisecondsHeader is the header of a refusal with its time, which SDKs know.
const millisecondsHeader = "Retry-After-Ms"

const (
	maxReason  = 512                 // bytes of a reason
	maxRefused = 32 * 24 * time.Hour // more than a month
)

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
	if list, rest, ok := strings.Cut(text, "): "+modelText); ok && strings.HasPrefix(list, " (") {
		for i, code := range strings.Split(list[2:], ", ") {
			switch {
			case i == 0 && isName(code, maxCode):
				p.Code = code
			case i == 1 && p.Code == string(ratelimit.DecisionCooldown) && isName(code, maxCode):
				p.Cause = ratelimit.Cause(code)
			case i > 0 && code == overBudget:
				p.overBudget = true
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
	p.Reason = quotedReason(text, p.Err)
	if _, after, ok := strings.Cut(text, refusedFree); ok {
		end := strings.IndexFunc(after, func(r rune) bool {
			return !strings.ContainsRune("0123456789.hmsnµu", r)
		})
		if end < 0 {
			end = len(after)
		}
		if d, err := time.ParseDuration(after[:end]); err == nil && d > 0 {
			p.RetryAfter = min(d, maxRefused)
		}
	}
	return p
}

// quotedReason returns the reason behind the names in the message of a refusal, which err ended;
// empty if there is none that ends there.
func quotedReason(text string, err error) string {
	text, ok := strings.CutPrefix(text, ": ")
	if !ok || err == nil {
		return ""
	}
	reason, _, free := strings.Cut(text, refusedFree)
	if !free {
		if reason, _, ok = strings.Cut(text, ": "+err.Error()); !ok {
			return ""
		}
	}
	return readReason(reason)
}

// readReason returns a reason that was read; empty for a text that cannot be one.
func readReason(text string) string {
	if len(text) > maxReason || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return ""
	}
	return text
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
		ownMark:          {},
		modelHeader:      {strconv.QuoteToASCII(limit.Model)},
	}
	if ending := endingOf(limit); ending != "" {
		h.Set(endingHeader, ending)
	}
	if errors.Is(limit, ratelimit.ErrBudget) {
		h.Set(budgetHeader, "true")
	}
	if pool := limit.Decision.Pool; pool != "" {
		h.Set(poolHeader, strconv.QuoteToASCII(pool))
	}
	if reason := reasonOf(&limit.Decision); reason != "" {
		h.Set(reasonHeader, strconv.QuoteToASCII(reason))
	}
	if cause := limit.Decision.Cause; cause != "" {
		h.Set(causeHeader, string(cause))
	}
	if d := limit.Decision.RetryAfter; d > 0 && !limit.Decision.Never {
		h.Set("Retry-After", strconv.FormatInt(int64(math.Ceil(d.Seconds())), 10))
		h.Set(millisecondsHeader, strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10))
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
