package fakeprovider

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// exchange is a request and its answer.
type exchange struct {
	server  *Server
	w       http.ResponseWriter
	r       *http.Request
	call    Call
	answer  Answer
	headers Headers
	model   *model
	atStart http.Header // the headers of the limits when the request was counted
	zip     *gzip.Writer
	events  int  // of the stream so far
	done    bool // is no longer in flight
	tells   bool // the next event tells what was used
	last    bool // the next event is the last one
}

func (x *exchange) serve() {
	s := x.server
	s.jitter(x.call.Rand)
	s.mu.Lock()
	x.model = s.model(x.call.Model)
	if x.model == nil {
		s.mu.Unlock()
		x.fail(http.StatusNotFound, "model_not_found")
		return
	}
	if x.call.free {
		s.free++
		s.mu.Unlock()
		x.json(x.tokens())
		return
	}
	now := time.Now()
	counts := charge(x.model.config.Count, x.headers, &x.call, &x.answer)
	why := x.model.arrive(now, counts)
	s.record(x.model, now, counts, &x.answer, why != nil)
	x.atStart = x.limits(now)
	if why == nil && x.answer.Status == 0 {
		x.model.stats.Used.add(x.answer.Usage)
	}
	s.mu.Unlock()
	if why != nil {
		s.jitter(x.call.Rand)
		x.refuse(why)
		return
	}
	defer x.end()

	delay := x.answer.Delay
	if x.answer.Spread > 0 {
		delay += time.Duration(x.call.Rand.Int64N(int64(x.answer.Spread) + 1))
	}
	if !sleep(x.r.Context(), delay) {
		s.mu.Lock()
		x.model.stats.Gone++
		s.mu.Unlock()
		return
	}
	s.jitter(x.call.Rand)
	x.header()
	switch {
	case x.answer.Status != 0:
		s.mu.Lock()
		x.model.stats.Failed++
		s.mu.Unlock()
		x.end()
		x.fail(x.answer.Status, x.answer.Code)
	case x.answer.Garbage:
		x.garbage()
	case x.call.Stream:
		x.stream()
	default:
		x.json(x.whole())
	}
}

// end takes the request out of those in flight. It comes before the last byte of the
// answer, as the client may call again as soon as it has that.
func (x *exchange) end() {
	if !x.done {
		x.done = true
		x.server.mu.Lock()
		x.model.stats.InFlight--
		x.server.mu.Unlock()
	}
}

// report counts the usage as one that the answer says. It comes before the text
// that says it, as the client may look as soon as it has that.
func (x *exchange) report() {
	if x.answer.WrongUsage != "" {
		return
	}
	x.server.mu.Lock()
	x.model.stats.Reported.add(x.answer.Usage)
	x.model.stats.Reports++
	x.server.mu.Unlock()
}

// header sets the fields of the answer but for its type and length.
func (x *exchange) header() {
	h := x.w.Header()
	from := x.atStart
	if !x.server.options.HeadersAtArrival {
		x.server.mu.Lock()
		from = x.limits(time.Now())
		x.server.mu.Unlock()
	}
	for key, values := range from {
		h[key] = values
	}
	id := "req_" + x.id()
	switch {
	case x.call.Dialect == Anthropic:
		h.Set("request-id", id)
	case x.call.Dialect == OpenAI && x.headers == AzureHeaders:
		h.Set("apim-request-id", id)
	case x.call.Dialect == OpenAI:
		h.Set("x-request-id", id)
	}
	for key, value := range x.answer.Header {
		h.Set(key, value)
	}
}

// id returns a random name.
func (x *exchange) id() string { return fmt.Sprintf("%016x", x.call.Rand.Uint64()) }

// whole returns the answer that is no stream.
func (x *exchange) whole() json.RawMessage {
	switch x.call.Dialect {
	case Anthropic:
		return x.message()
	case Gemini:
		return x.generated()
	case Ollama:
		return x.ollama(x.text(), true)
	}
	switch x.call.Operation {
	case "responses":
		return x.response("completed")
	case "embeddings":
		return x.embeddings()
	case "completions":
		return x.completion()
	}
	return x.chat()
}

// json writes the answer that is no stream.
func (x *exchange) json(body json.RawMessage) {
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	if x.zipped() {
		var zipped bytes.Buffer
		zip := gzip.NewWriter(&zipped)
		zip.Write(body)
		zip.Close()
		body = zipped.Bytes()
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if x.answer.Cut > 0 || x.answer.Stall > 0 {
		half := len(body) / 2
		x.raw(body[:half])
		body = body[half:]
		if x.answer.Cut > 0 || !sleep(x.r.Context(), x.answer.Stall) {
			panic(http.ErrAbortHandler)
		}
	}
	if !x.call.free {
		x.report()
		x.end()
	}
	x.w.Write(body)
}

// garbage writes random bytes.
func (x *exchange) garbage() {
	body := make([]byte, 4096)
	for i := range body {
		body[i] = byte(x.call.Rand.Uint32())
	}
	x.w.Header().Set("Content-Type", x.contentType())
	x.end()
	x.w.Write(body)
}

func (x *exchange) contentType() string {
	switch {
	case !x.call.Stream || x.call.Dialect == Gemini && !x.call.sse:
		return "application/json"
	case x.call.Dialect == Ollama:
		return "application/x-ndjson"
	}
	return "text/event-stream"
}

// zipped reports whether the answer is to be compressed, and says so in its header.
func (x *exchange) zipped() bool {
	if !x.server.options.Gzip || !strings.Contains(x.r.Header.Get("Accept-Encoding"), "gzip") {
		return false
	}
	x.w.Header().Set("Content-Encoding", "gzip")
	return true
}

// text returns a text that has about as many tokens as the output.
func (x *exchange) text() string { return strings.Repeat(" tok", x.answer.Output-x.answer.Thoughts) }

// part returns part i of n of the text of a stream.
func (x *exchange) part(i int) string {
	tokens, n := x.answer.Output-x.answer.Thoughts, x.answer.Chunks
	return strings.Repeat(" tok", tokens*(i+1)/n-tokens*i/n)
}

// partial returns how many tokens of output there are after i parts of the text.
func (x *exchange) partial(i int) int {
	tokens := x.answer.Output - x.answer.Thoughts
	return x.answer.Thoughts + tokens*i/x.answer.Chunks
}

// full reports whether the output is all that was allowed.
func (x *exchange) full() bool {
	return x.call.MaxOutput > 0 && x.answer.Output >= x.call.MaxOutput
}

// count returns a count of the usage as it is written.
func (x *exchange) count(n int) json.RawMessage {
	if x.answer.WrongUsage != "" {
		return json.RawMessage(x.answer.WrongUsage)
	}
	return json.RawMessage(strconv.Itoa(n))
}

// sleep sleeps for a time, or until a context ends; it reports which.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
