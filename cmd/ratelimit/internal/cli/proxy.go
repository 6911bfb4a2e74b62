package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/proxy"
	"dappco.re/go/core/go-ratelimit/promratelimit"
)

// proxyFlags are the flags of the proxy.
type proxyFlags struct {
	quota  quotaFlags
	shared sharedState

	listen, admin      string
	upstreams, keyEnvs []string
	hosts              []string
	tokenFile          string
	tlsCert, tlsKey    string
	insecureHTTP       bool
	perKey             bool
	secretFile         string
	classBy, flowBy    string
	maxQueue           int
	maxWait            time.Duration
	idleTimeout        time.Duration
	heartbeat          time.Duration
	drainTimeout       time.Duration
	noWebSocket        bool
	logLevel           string
}

const maxQueuedBytes = 256 << 20

const proxyLong = `proxy serves one quota to every client that can change a base URL. A call waits here
until the provider has room for it, goes on byte for byte, and is charged what its answer reports.

One --upstream URL gets all paths. Several, as NAME=URL, get the paths that begin with /NAME/, and
count their models as NAME/model. "ratelimit env" prints what a client needs.

A call that would have to wait for longer than --max-wait is refused at once, with status 429 in the
provider's own format, and the exact Retry-After.

With --heartbeat, streamed calls that wait get comments, so that no client gives up. The answer has
then begun with status 200: an error comes as an event of the stream. Gemini's paths get none.`

const proxyExample = `  # 30 requests and 40,000 tokens a minute for each model of OpenAI
  ratelimit proxy --upstream https://api.openai.com --rpm 30 --tpm 40000

  # two providers, each by the quotas of its tier
  ratelimit proxy --upstream openai=https://api.openai.com --upstream anthropic=https://api.anthropic.com \
    --profile openai/tier1 --profile anthropic/start`

func newProxy() *cobra.Command {
	f := &proxyFlags{}
	cmd := &cobra.Command{
		Use:     "proxy",
		Short:   "Serve one quota to every client of a machine, in any language",
		Long:    proxyLong,
		Example: proxyExample,
		Args:    noArguments,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.ErrOrStderr()) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&f.upstreams, "upstream", nil, "`[NAME=]URL` of a provider; may be repeated")
	f.quota.addFlags(flags)
	f.shared.addFlags(flags)
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8787", "`address` for clients")
	flags.StringVar(&f.admin, "admin", "127.0.0.1:8788", "`address` of the page, /healthz and /metrics; empty for none")
	flags.StringArrayVar(&f.hosts, "host", nil, "`name` of this machine that requests may have; may be repeated")
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` of those who may ask: lines of name, token, class, flow")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "`file` of the certificate")
	flags.StringVar(&f.tlsKey, "tls-key", "", "`file` of its key")
	flags.BoolVar(&f.insecureHTTP, "insecure-http", false, "serve other machines without TLS")
	flags.StringArrayVar(&f.keyEnvs, "key-env", nil, "`[NAME=]VARIABLE` with the key of the upstream; clients then\nsend their token in its place")
	flags.BoolVar(&f.perKey, "per-key", false, "count each key as an account of its own")
	flags.StringVar(&f.secretFile, "secret-file", "", "`file` of the secret that names the accounts of --per-key (default beside --db)")
	flags.StringVar(&f.classBy, "class-by", "", "where the class of a call comes from: `header:NAME|path|token`\n(default X-Ratelimit-Class)")
	flags.StringVar(&f.flowBy, "flow-by", "", "where its flow comes from: `header:NAME|path|token` (default X-Ratelimit-Flow)")
	flags.IntVar(&f.maxQueue, "max-queue", 1000, "`calls` that may wait")
	flags.DurationVar(&f.maxWait, "max-wait", 4*time.Minute+30*time.Second, "longest wait of a call")
	flags.DurationVar(&f.idleTimeout, "idle-timeout", 2*time.Minute, "cut a client that does not read or send for so long")
	flags.DurationVar(&f.heartbeat, "heartbeat", 0, "send a comment so often while a streamed call waits; zero for none")
	flags.DurationVar(&f.drainTimeout, "drain-timeout", 30*time.Second, "how long open calls may take after SIGTERM or Ctrl-C")
	flags.BoolVar(&f.noWebSocket, "no-websocket", false, "answer WebSockets to models with status 426")
	flags.StringVar(&f.logLevel, "log-level", "info", "`level` of the log: debug, info (each call), warn or error")
	return cmd
}

// noArguments refuses arguments of a command that has none.
func noArguments(cmd *cobra.Command, arguments []string) error {
	if len(arguments) > 0 {
		return usagef("%s takes no arguments: %q", cmd.CommandPath(), arguments)
	}
	return nil
}

// run serves until a signal comes, and its calls have ended.
func (f *proxyFlags) run(ctx context.Context, stderr io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer onSignal(func(syscall.Signal) { cancel() })()
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.logLevel)); err != nil {
		return usagef("--log-level: %w", err)
	}
	// What net/http tells there may have the beginning of an answer in it.
	stdlog.SetOutput(io.Discard)
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	settings, cfg, err := f.settings(log)
	if err != nil {
		return err
	}
	on, err := f.listeners(settings.Clients != nil)
	if err != nil {
		return err
	}
	defer on.Clients.Close()
	if on.Admin != nil {
		defer on.Admin.Close()
	}
	p, err := proxy.New(settings)
	if err != nil {
		return usageError{err}
	}
	if cfg.Margin == 0 {
		cfg.Margin = killMargin
	}
	cfg.Events = ratelimit.EventHandlers(p, settings.Metrics)
	cfg.OnError = func(err error) { log.Warn(err.Error()) }
	closeStore, err := f.shared.configure(ctx, &cfg)
	if err != nil {
		return err
	}
	defer closeStore()
	limiter, err := ratelimit.NewWithConfig(cfg)
	if err != nil {
		return err
	}
	p.Use(limiter)
	f.tellStart(stderr, on, settings.Upstreams)
	err = p.Serve(ctx, on, f.drainTimeout)
	return errors.Join(err, limiter.Close())
}

// tellStart says where the proxy serves, on one line.
func (f *proxyFlags) tellStart(to io.Writer, on proxy.Listeners, upstreams []*proxy.Upstream) {
	scheme := "http"
	if on.TLS != nil {
		scheme = "https"
	}
	ways := make([]string, len(upstreams))
	for i, u := range upstreams {
		ways[i] = fmt.Sprintf("%s://%s%s -> %s", scheme, on.Clients.Addr(), strings.TrimRight("/"+u.Name, "/"), u.URL)
	}
	line := "ratelimit: " + strings.Join(ways, ", ")
	if on.Admin != nil {
		line += fmt.Sprintf("; admin %s://%s", scheme, on.Admin.Addr())
	}
	fmt.Fprintln(to, line)
}

// settings returns what the flags, and the file that they name, say of the proxy and its limiter.
func (f *proxyFlags) settings(log *slog.Logger) (proxy.Settings, ratelimit.Config, error) {
	none := func(err error) (proxy.Settings, ratelimit.Config, error) {
		return proxy.Settings{}, ratelimit.Config{}, err
	}
	s := proxy.Settings{
		Hosts: f.hosts, MaxQueue: f.maxQueue, MaxQueued: maxQueuedBytes, MaxWait: f.maxWait, IdleTimeout: f.idleTimeout,
		Heartbeat: f.heartbeat, NoWebSocket: f.noWebSocket, Log: log, Metrics: promratelimit.NewHandler(promratelimit.HandlerOptions{}),
	}
	switch {
	case f.maxQueue < 0 || f.maxWait < 0 || f.heartbeat < 0 || f.drainTimeout < 0:
		return none(usagef("--max-queue, --max-wait, --heartbeat and --drain-timeout: must not be negative"))
	case f.idleTimeout <= 0:
		return none(usagef("--idle-timeout: must be positive"))
	}
	file, err := readConfig(f.quota.config)
	if err != nil {
		return none(err)
	}
	if s.Upstreams, err = f.upstreamsOf(file); err != nil {
		return none(err)
	}
	if s.ClassBy, s.FlowBy, err = f.labels(); err != nil {
		return none(err)
	}
	if f.tokenFile != "" {
		if s.Clients, err = readClients(f.tokenFile); err != nil {
			return none(err)
		}
	}
	cfg, err := f.quota.configOf(file.Config, s.Upstreams, f.perKey, log)
	if err != nil {
		return none(err)
	}
	if f.perKey || len(s.Upstreams) > 1 {
		s.HasQuota = versionsBehind(&cfg)
	}
	if f.perKey {
		if s.Secret, err = f.secret(cfg); err != nil {
			return none(err)
		}
	}
	s.FailClosed, s.Classes = cfg.FailClosed, make(map[string]bool)
	for class := range cfg.Classes {
		s.Classes[class] = true
	}
	for _, u := range s.Upstreams {
		if strings.HasSuffix(u.URL.Path, "/v1") {
			log.Warn("clients put /v1 before their paths themselves: leave it out of the upstream, unless yours do not", "upstream", u.URL.String())
		}
	}
	return s, cfg, nil
}

// labels reads where classes and flows come from.
func (f *proxyFlags) labels() (class, flow proxy.Label, err error) {
	for _, l := range []struct {
		flag, text string
		to         *proxy.Label
	}{{"--class-by", f.classBy, &class}, {"--flow-by", f.flowBy, &flow}} {
		if l.text == "" {
			continue
		}
		if *l.to, err = proxy.ParseLabel(l.text); err != nil {
			return class, flow, usagef("%s: %w", l.flag, err)
		}
		if l.to.NeedsToken() && f.tokenFile == "" {
			return class, flow, usagef("%s token: there is no --token-file", l.flag)
		}
	}
	return class, flow, nil
}

// readClients reads the file of clients, which nobody else may read.
func readClients(path string) (*proxy.Clients, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, usagef("--token-file: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, usagef("--token-file: %w", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, usagef("--token-file: others may read %s: chmod 600 %s", path, path)
	}
	clients, err := proxy.ReadClients(file)
	if err != nil {
		return nil, usagef("--token-file: %s: %w", path, err)
	}
	return clients, nil
}

// listeners opens the addresses. Those that other machines can reach need to know who asks.
func (f *proxyFlags) listeners(tokens bool) (proxy.Listeners, error) {
	var on proxy.Listeners
	if (f.tlsCert == "") != (f.tlsKey == "") {
		return on, usagef("--tls-cert and --tls-key: one does not go without the other")
	}
	if f.tlsCert != "" {
		pair, err := tls.LoadX509KeyPair(f.tlsCert, f.tlsKey)
		if err != nil {
			return on, usagef("--tls-cert, --tls-key: %w", err)
		}
		on.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	listen := func(flag, address string) (net.Listener, error) {
		switch {
		case isLocal(address):
		case !tokens:
			return nil, usagef("%s %s: other machines reach it, so it needs --token-file", flag, address)
		case on.TLS == nil && !f.insecureHTTP:
			return nil, usagef("%s %s: other machines reach it, so it needs --tls-cert and --tls-key, or --insecure-http", flag, address)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		return l, nil
	}
	var err error
	if on.Clients, err = listen("--listen", f.listen); err != nil {
		return on, err
	}
	if f.admin == "" {
		return on, nil
	}
	if on.Admin, err = listen("--admin", f.admin); err != nil {
		on.Clients.Close()
	}
	return on, err
}

// isLocal reports whether only this machine reaches an address.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
