package httplimit

import (
	"context"
	"math"
	"net/http"
	"sync"

	"dappco.re/go/core/go-ratelimit/keyed"
)

// Settle returns the units that a response has used of a limit. If it does not know them, the
// Handler charges the estimate, or nothing for a call that failed: see the package comment. It is
// called once for each held limit, after the next handler has returned. Negative units count as 0.
type Settle func(Response) (units int, known bool)

// Tokens returns the input and output tokens that a response in OpenAI's or Anthropic's shape
// states.
func Tokens(r Response) (units int, known bool) {
	return r.Usage.Prompt + r.Usage.Output, r.Usage.Known
}

// Response is a response that has ended.
type Response struct {
	// Request is the request. Its body has been read or closed.
	Request *http.Request
	// Limit is the limit to settle. Its Cost is the estimate that was held, or keyed.Free.
	Limit keyed.Request
	// Status is the status that was sent; 0 if the next handler panicked before it sent one.
	Status int
	// Header is the header and the trailers that the next handler has set. It must not be changed.
	Header http.Header
	// Usage is what the body states in OpenAI's or Anthropic's shape.
	Usage Usage
	// Hijacked reports that the next handler took the connection over.
	Hijacked bool
	// Panicked reports that the next handler panicked. ReverseProxy does if the response of its
	// target breaks off.
	Panicked bool
}

// Report tells what a request has used of the limits of a namespace. The next handler, or what it
// calls, passes the context of its request or one derived from it. Several reports add up, and
// take the place of Options.Settle. Negative units count as 0. It returns false, and does nothing,
// if the context has no request whose limits of that namespace are held. It is safe for concurrent
// use. A report after the next handler has returned comes too late.
func Report(ctx context.Context, namespace string, units int) bool {
	for c, _ := ctx.Value(callKey{}).(*call); c != nil; c = c.outer {
		if c.report(namespace, units) {
			return true
		}
	}
	return false
}

type callKey struct{}

// held is a limit whose cost is not known yet.
type held struct {
	hold  keyed.Hold
	limit keyed.Request
	told  int  // units, by Report
	known bool // told
}

// call is a request that is served with limits on hold.
type call struct {
	request *http.Request
	held    []held
	few     [2]held // room for held
	outer   *call   // of a Handler around this one
	watched watched

	mu    sync.Mutex // guards what is told
	ended bool       // what is told now comes too late
}

// report adds units if the call holds a limit of the namespace.
func (c *call) report(namespace string, units int) (holds bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.held {
		if h := &c.held[i]; h.limit.Namespace == namespace && !c.ended {
			h.told += min(max(units, 0), math.MaxInt-h.told)
			h.known, holds = true, true
		}
	}
	return holds
}

// end makes later reports return false.
func (c *call) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
}

// serve calls the next handler and settles the held limits when it has ended.
func (c *call) serve(next http.Handler, w http.ResponseWriter, settle map[string]Settle) {
	ctx := c.request.Context()
	c.outer, _ = ctx.Value(callKey{}).(*call)
	c.watched.under, c.watched.request = w, ctx
	returned := false
	inner := c.request.WithContext(context.WithValue(ctx, callKey{}, c))
	defer func() {
		handBack(c.request, inner)
		c.settle(settle, returned)
	}()
	next.ServeHTTP(c.watched.writer(), inner)
	returned = true
}

// handBack gives a request what handlers have set in a copy of it: the server removes the files of
// the form of its own request, and handlers around this one read the pattern of theirs.
func handBack(outer, inner *http.Request) {
	outer.Pattern = inner.Pattern
	outer.Form, outer.PostForm, outer.MultipartForm = inner.Form, inner.PostForm, inner.MultipartForm
}

// settle ends the holds, once the next handler has returned or panicked.
func (c *call) settle(settle map[string]Settle, returned bool) {
	w := &c.watched
	c.end()
	response := Response{
		Request: c.request, Status: w.status, Header: w.under.Header(), Usage: w.reader.close(),
		Hijacked: w.hijacked, Panicked: !returned,
	}
	if returned && w.status == 0 && !w.hijacked {
		response.Status = http.StatusOK
	}
	unused := w.failed
	if response.Panicked && w.status == 0 && !w.hijacked {
		unused = w.request.Err() == nil
	}
	for i := range c.held {
		h := &c.held[i]
		units, known := h.told, h.known
		if function := settle[h.limit.Namespace]; !known && function != nil {
			response.Limit = h.limit
			units, known = function(response)
		}
		switch {
		case known:
			h.hold.Commit(units)
		case unused:
			h.hold.Cancel()
		default:
			h.hold.Commit(h.limit.Cost)
		}
	}
}

// commitEstimates ends the holds that have not ended.
func (c *call) commitEstimates() {
	for i := range c.held {
		c.held[i].hold.Commit(c.held[i].limit.Cost)
	}
}
