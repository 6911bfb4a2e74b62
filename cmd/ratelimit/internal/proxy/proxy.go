// Package proxy is an HTTP server that holds the calls of all its clients inside one quota, and
// changes nothing else of them.
package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync/atomic"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/llmhttp"
	"dappco.re/go/core/go-ratelimit/promratelimit"
)

// Settings say what a Proxy does.
type Settings struct {
	Upstreams []*Upstream     // one without a name, or any number with names that differ
	Hosts     []string        // names of this machine beside the loopback addresses
	Clients   *Clients        // who may ask; nil for everybody
	ClassBy   Label           // where the class of a call comes from
	FlowBy    Label           // where its flow comes from
	Classes   map[string]bool // that a path may begin with
	// HasQuota reports whether a quota has a name, so that dated and prefixed names of a model
	// count with it. It is asked where names of models get others before them. Nil takes names as
	// they are.
	HasQuota func(name string) bool
	// Secret, if there is one, makes each key an account of its own, named by an HMAC with it.
	Secret []byte

	MaxQueue    int           // calls that wait; further ones are refused
	MaxQueued   int64         // bytes of bodies that are not sent yet
	MaxWait     time.Duration // of a call for room; zero is no bound
	IdleTimeout time.Duration // of a client that neither sends nor reads
	Heartbeat   time.Duration // between comments while a streamed call waits; zero for none
	NoWebSocket bool

	FailClosed bool // as that of the limiter: whether a store that is away means that nothing is served

	Metrics *promratelimit.Handler // which is told of the limiter's events; nil for no metrics
	Log     *slog.Logger
}

// Proxy is the handler for clients. Make one with New, and give it its limiter with Use before it
// serves. It is safe for concurrent use.
type Proxy struct {
	Settings
	door *door
	keys bool // an upstream has a key, so that clients have tokens in its place
	room room

	limiter  *ratelimit.RateLimiter
	reverse  *httputil.ReverseProxy
	base     *http.Transport
	draining atomic.Bool
	open     atomic.Int64 // requests, upgraded ones included
}

// New returns a Proxy, whose HandleEvent is to be among the Events of its limiter.
func New(s Settings) (*Proxy, error) {
	p := &Proxy{
		Settings: s, door: newDoor(s.Hosts, s.Clients), room: room{maxWaiting: s.MaxQueue, maxBytes: s.MaxQueued}, base: newBase(),
	}
	if len(s.Upstreams) == 0 {
		return nil, errors.New("no upstream")
	}
	names := make(map[string]bool)
	for _, u := range s.Upstreams {
		switch {
		case u.Name == "" && len(s.Upstreams) > 1:
			return nil, errors.New("of several upstreams each needs a name, as in openai=https://api.openai.com")
		case names[u.Name]:
			return nil, fmt.Errorf("two upstreams are named %q", u.Name)
		}
		names[u.Name] = true
		if len(s.Upstreams) > 1 {
			u.counted = u.Name + "/"
		}
		p.keys = p.keys || u.Key != ""
	}
	p.reverse = &httputil.ReverseProxy{
		Rewrite: p.rewrite, Transport: forwarder{p}, FlushInterval: -1, BufferPool: buffers{},
		ErrorHandler: p.failed, ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	return p, nil
}

// Use sets the limiter.
func (p *Proxy) Use(rl *ratelimit.RateLimiter) {
	p.limiter = rl
	for _, u := range p.Upstreams {
		u.transport = &llmhttp.Transport{
			Base: sender{p.base}, Limiter: rl, Model: nameOf, MaxWait: p.MaxWait, MaxBody: maxBody,
			NoWebSocket: p.NoWebSocket, NoRefund: u.NoRefund, RefuseWithError: true, // answerTo makes the answers
		}
	}
}

// counted returns the name under which a model is counted, with the account of its key, if each is
// one.
func (p *Proxy) counted(x *exchange, model string) string {
	prefix := x.upstream.counted
	if prefix == "" && p.Secret == nil {
		return model
	}
	name := CountedBehind(p.limiter, prefix, model, p.HasQuota)
	if p.Secret == nil {
		return name
	}
	rest, behind := strings.CutPrefix(name, prefix)
	if !behind { // an alias of elsewhere
		prefix = ""
	}
	return prefix + account(p.Secret, x.key) + "/" + rest
}

// tellQuota warns that another process of the shared quota has said another quota.
func (p *Proxy) tellQuota(e *ratelimit.Event) {
	name := e.Model
	if name == "" {
		name = e.Pool
	}
	says, _ := json.Marshal(e.Quota) // without what is not limited
	p.Log.Warn("another process has said another quota, which holds now", "of", name, "quota", string(says))
}

// ServeHTTP answers a client.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.open.Add(1)
	defer p.open.Add(-1)
	began := time.Now()
	ctx, stop := context.WithCancelCause(r.Context())
	defer stop(nil)
	x := &exchange{proxy: p, writer: newWriter(w, p.IdleTimeout), stop: stop}
	x.room.in = &p.room
	defer x.room.leave()
	defer x.line(r, began)
	defer x.writer.finish()
	client, bad := p.admit(r, x)
	if bad != nil {
		x.refuse(r, bad)
		return
	}
	class, flow := p.label(r, x, client)
	if x.upstream, x.rest = p.upstreamOf(x.rest); x.upstream == nil {
		x.refuse(r, &fault{http.StatusNotFound, "no upstream has this path: they have " + p.paths()})
		return
	}
	if bad = p.admitKey(r, x); bad != nil {
		x.refuse(r, bad)
		return
	}
	if class != "" {
		ctx = ratelimit.WithClass(ctx, class)
	}
	if flow != "" {
		ctx = ratelimit.WithFlow(ctx, flow)
	}
	r = r.WithContext(context.WithValue(ctx, exchangeKey{}, x))
	if r, bad = p.withBody(r, x); bad != nil || r == nil {
		if bad != nil {
			x.refuse(r, bad)
		}
		return
	}
	p.reverse.ServeHTTP(x.writer, r)
}

// admit returns the client that asks, or why it gets no answer.
func (p *Proxy) admit(r *http.Request, x *exchange) (*Client, *fault) {
	if bad := p.door.check(r, false); bad != nil {
		return nil, bad
	}
	client, bad := p.door.who(r, p.keys)
	switch {
	case bad != nil:
		return nil, bad
	case isSigned(r):
		return nil, &fault{http.StatusBadRequest, "a signature of AWS (SigV4) holds for one host only: Bedrock works with an API key"}
	case leadsUp(r.URL.Path):
		return nil, &fault{http.StatusBadRequest, "the path has . or .. in it, which may lead to another upstream"}
	}
	x.rest = r.URL.EscapedPath()
	return client, nil
}

// admitKey returns why a request with its keys does not go to its upstream; nil for one that does.
func (p *Proxy) admitKey(r *http.Request, x *exchange) *fault {
	if x.upstream.Key != "" {
		return nil // which goes in place of all of them
	}
	if _, bad := p.door.who(r, false); bad != nil {
		return bad
	}
	if p.Secret != nil && hasTwoKeys(r) {
		return &fault{http.StatusBadRequest, "the request has two keys: with --per-key it cannot be told whose account it is on"}
	}
	return nil
}

// label returns the class and the flow of a request, and takes them off its path.
func (p *Proxy) label(r *http.Request, x *exchange, client *Client) (class, flow string) {
	var own Client
	if client != nil {
		own = *client
	}
	class, x.rest = p.ClassBy.of(r.Header, x.rest, own.Class, "X-Ratelimit-Class", p.Classes)
	flow, x.rest = p.FlowBy.of(r.Header, x.rest, own.Flow, "X-Ratelimit-Flow", nil)
	return class, flow
}
