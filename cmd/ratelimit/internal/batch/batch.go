package batch

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"bufio"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
	"dappco.re/go/core/go-ratelimit/money"
)

// Settings say what a Batch does.
type Settings struct {
	Input    *Input
	Output   *Output   // nil for a plan alone
	Errors   io.Writer // gets the lines that fail; nil for nothing
	Upstream *url.URL  // https, or http on this machine
	NoRefund bool      // of the Transport
	Path     string    // of lines that are bodies alone; empty refuses them
	// Counted returns the name under which a model is counted; nil for its own.
	Counted func(model string) string
	Class   string // of the calls; empty for none

	Ordered      bool          // OUT is in the order of IN
	FailFast     bool          // the first line that fails ends the batch
	Limit        int           // lines that are taken at most; zero for all
	MaxAttempts  int           // of a line
	MaxCost      money.Amount  // of the batch, former runs included; zero for no bound
	Timeout      time.Duration // of a call, since it was sent
	ExpectOutput int           // tokens of an answer, before one is known; zero for what llmhttp expects

	Base http.RoundTripper // sends the calls
}

// Batch is a run over IN. Make it with New, give it its limiter with Use, and Close it.
type Batch struct {
	s         Settings
	survey    *survey
	sizer     *sizer
	limiter   *ratelimit.RateLimiter
	transport *llmhttp.Transport
	key       secret
	base      string // the upstream without a slash at its end

	room    room
	count   counts
	began   time.Time
	mu      sync.Mutex
	stopped Stop               // why no further line is taken; empty for none
	drain   context.CancelFunc // ends calls that are not sent
	models  map[string]string  // the counted names of those that were seen
}

// Stop is why a run ended before the end of IN.
type Stop string

// The reasons.
const (
	StoppedBySignal  Stop = "signal"
	StoppedByBudget  Stop = "budget"
	StoppedByFailure Stop = "fail_fast"
	StoppedByLimit   Stop = "limit"
	StoppedByError   Stop = "error"
)

// New reads OUT and IN. The error is an *InputError for what no batch can be made of.
func New(s Settings) (*Batch, error) {
	out := s.Output
	if out == nil {
		out = Stdout(io.Discard)
	}
	found, err := takeSurvey(s.Input, out, s.Path)
	if err != nil {
		return nil, err
	}
	sizer, err := newSizer(s.ExpectOutput)
	if err != nil {
		return nil, err
	}
	if s.Counted == nil {
		s.Counted = func(model string) string { return model }
	}
	base := s.Upstream.Scheme + "://" + s.Upstream.Host + strings.TrimRight(s.Upstream.EscapedPath(), "/")
	return &Batch{s: s, survey: found, sizer: sizer, base: base, models: make(map[string]string)}, nil
}

// Close lets go of what New has made.
func (b *Batch) Close() error { return b.sizer.limiter.Close() }

// KeyVariable is the variable of the environment in which the SDK of the upstream looks for a key,
// by its host, or else by the first line.
func (b *Batch) KeyVariable() string {
	return schemeOf(b.s.Upstream.Hostname(), b.survey.first.path).variable
}

// Use sets the limiter, among whose Events Costs must be, and the key of the upstream.
func (b *Batch) Use(rl *ratelimit.RateLimiter, key string) {
	b.limiter, b.key = rl, secret(key)
	b.transport = &llmhttp.Transport{
		Base: b.s.Base, Limiter: rl, OnEvent: b.handle, RefuseWithError: true, MaxBody: maxLine, FirstOutput: b.s.ExpectOutput,
		NoRefund: b.s.NoRefund,
		Model:    func(call *llmhttp.Call) string { return b.counted(call.Model) },
	}
}

// counted returns the name under which a model is counted. The first time it has the price of the
// model count, which a limiter without a budget does not ask for.
func (b *Batch) counted(model string) string {
	b.mu.Lock()
	name, ok := b.models[model]
	b.mu.Unlock()
	if ok || model == "" {
		return name
	}
	name = b.s.Counted(model)
	if price, ok := b.limiter.PriceOf(name); ok {
		b.limiter.SetPrice(name, price) //nolint:errcheck // it is the limiter's own
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.models) < maxModels {
		b.models[model] = name
	}
	return name
}

// maxModels bounds the models that are remembered.
const maxModels = 1000

// request returns the request of a line.
func (b *Batch) request(ctx context.Context, l *line) (*http.Request, error) {
	path := l.path
	if strings.HasSuffix(b.base, "/v1") && strings.HasPrefix(path, "/v1/") {
		path = strings.TrimPrefix(path, "/v1") // the base URL of SDKs has it, too
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.base+path, bytes.NewReader(l.body))
	if err != nil {
		return nil, err
	}
	setHeaders(req, b.s.Upstream.Hostname(), l.path, string(b.key))
	return req, nil
}

// Run sends the lines that OUT does not have, until the context ends: then it takes no more, and
// lets the calls that are sent come to their end. The error is of a file.
func (b *Batch) Run(ctx context.Context) (Summary, error) {
	b.began = time.Now()
	if err := b.begin(); err != nil {
		return b.summary(), err
	}
	soft, drain := context.WithCancel(ctx)
	defer drain()
	b.mu.Lock()
	b.drain = drain
	b.mu.Unlock()
	defer context.AfterFunc(ctx, func() { b.stop(StoppedBySignal) })()

	outcomes := make(chan *outcome, maxGroup)
	w := &writer{b: b, synced: b.began}
	if b.s.Errors != nil {
		w.errors = bufio.NewWriter(b.s.Errors)
	}
	if b.s.Ordered {
		w.order = &sequence{}
	}
	written := make(chan error, 1)
	go func() { written <- w.run(outcomes) }()
	err := b.pump(context.WithoutCancel(ctx), soft, outcomes)
	close(outcomes)
	err = errors.Join(err, <-written)
	b.survey.state.Running = false
	return b.summary(), errors.Join(err, b.note(0, true))
}

// WasKilled reports whether the last run with this OUT has not come to its end, so that the calls
// that it had sent are counted from their admission, and not from their arrival at the provider.
func (b *Batch) WasKilled() bool { return b.survey.killed }

// begin notes of which input OUT is, before anything is sent, and empties the file of errors.
func (b *Batch) begin() error {
	b.survey.state.Running = true
	if err := b.note(0, true); err != nil {
		return err
	}
	if b.s.Errors == nil {
		return nil
	}
	_, err := b.s.Errors.Write(nil)
	return err
}

// note writes the file beside OUT, with what calls have cost that are still in the room.
func (b *Batch) note(cost money.Amount, durable bool) error {
	if b.s.Output.mark == nil {
		return nil
	}
	spent, _ := b.room.costs()
	state := b.survey.state
	state.Spent = state.Spent.Add(spent).Add(cost)
	return b.s.Output.mark.write(state, durable)
}

// stop takes no further line, for a reason. Those that are not sent are left.
func (b *Batch) stop(why Stop) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped == "" {
		b.stopped = why
	}
	if b.drain != nil {
		b.drain()
	}
}

// afterFailure ends the batch where no further call can succeed, or is wanted.
func (b *Batch) afterFailure(f *failure) {
	switch {
	case f.isEmpty:
		b.stop(StoppedByBudget)
	case b.s.FailFast:
		b.stop(StoppedByFailure)
	}
}

// pump takes lines, and sends each on a goroutine of its own. It returns once all have ended.
func (b *Batch) pump(ctx, soft context.Context, to chan<- *outcome) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	taken, budget := 0, money.Max
	if b.s.MaxCost > 0 {
		budget = b.s.MaxCost.Sub(b.survey.state.Spent)
	}
	return b.each(soft, func(c *call, f *failure) bool {
		if b.s.Limit > 0 && taken == b.s.Limit {
			b.stopAt(StoppedByLimit)
			return false
		}
		c.order = taken
		ok, broke := b.room.enter(soft, c, budget)
		if broke {
			b.stopAt(StoppedByBudget)
		}
		if !ok {
			return false
		}
		taken++
		if f != nil {
			b.afterFailure(f)
			to <- &outcome{call: c, failure: f}
			return true
		}
		calls.Go(func() {
			o := b.do(ctx, soft, c)
			if o.failure != nil {
				b.afterFailure(o.failure)
			}
			to <- o
		})
		return true
	})
}

// stopAt is stop for a reason that lets all lines that were taken come to their end.
func (b *Batch) stopAt(why Stop) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped == "" {
		b.stopped = why
	}
}

// each reads the lines that OUT does not have, with what is wrong with them, until take returns
// false or the context ends.
func (b *Batch) each(ctx context.Context, take func(*call, *failure) bool) error {
	lines, err := b.s.Input.lines(nil)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		text, err := lines.next()
		if err == io.EOF {
			return nil
		}
		if err != nil && !errors.Is(err, errLongLine) {
			return err
		}
		if len(text) == 0 || b.survey.isDone.has(lines.number) {
			continue
		}
		c, f := b.callOf(bytes.Clone(text), err, lines.number)
		if f != nil {
			f.Line = lines.number
		}
		if !take(c, f) {
			return nil
		}
	}
	return nil
}

// callOf returns the call of a line, and why it cannot be sent; nil for one that can.
func (b *Batch) callOf(text []byte, bad error, number int) (*call, *failure) {
	l, err := parseLine(text, number, b.s.Path)
	if bad == nil {
		bad = err
	}
	c := &call{line: l, size: &size{}}
	switch {
	case bad != nil:
		return c, &failure{Code: codeBadLine, Message: bad.Error()}
	case b.key.in(text):
		return c, &failure{Code: codeBadLine, Message: "the line has the key in it"}
	}
	req, err := b.request(context.Background(), &c.line)
	if err != nil {
		return c, &failure{Code: codeBadLine, Message: "url is no path"}
	}
	if c.size, err = b.sizer.of(req); err != nil {
		return c, &failure{Code: codeBadLine, Message: string(b.key.hide([]byte(err.Error())))}
	}
	if c.size.model == "" {
		return c, &failure{Code: codeUncounted, Message: "nothing counts calls to this url, so no quota can hold them"}
	}
	name := b.counted(c.size.model)
	if why := misfit(limitsOf(b.limiter, name), c.size); why != "" {
		return c, &failure{Code: codeNeverFits, Message: why}
	}
	price, priced := b.limiter.PriceOf(name)
	if !priced && b.s.MaxCost > 0 {
		return c, &failure{Code: codeUnpriced, Message: "the model has no price, so that nothing can hold --max-cost"}
	}
	c.most = price.MaxCost(c.size.prompt, max(c.size.output, c.size.maxOutput))
	return c, nil
}
