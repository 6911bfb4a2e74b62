package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/batch"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/terminal"
	"dappco.re/go/core/go-ratelimit/money"
)

// batchFlags are the flags of a batch.
type batchFlags struct {
	quota  quotaFlags
	shared sharedState

	out, errors  string
	upstream     string
	keyEnv       string
	url          string
	class        string
	ordered      bool
	failFast     bool
	fresh        bool
	dryRun       bool
	limit        int
	maxAttempts  int
	maxCost      string
	timeout      time.Duration
	expectOutput int
	progress     string

	in     string
	budget money.Amount
}

const batchLong = `batch sends each line of IN to a provider, and appends the answers to OUT. It waits for room in the
quota, which is that of the proxy and of all programs with the same --db or --redis.

A line of IN is one of
  {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {...}}   as OpenAI has it
  {"custom_id": "a", "params": {...}}                                                  as Anthropic has it
  {...}                                                                                a body, with --url
IN may be compressed with gzip, and - is stdin, which is read to its end first. Answers are not streamed.

Run it again after a failure, a Ctrl-C or a kill: lines that OUT has are not sent again. IN may have
grown by then, but not changed: OUT.ratelimit has its hash. --errors FILE gets the lines that failed,
and is valid as IN.

429, 5xx, timeouts and broken connections are tried again, up to --max-attempts; other statuses are
not. A line that is larger than the quota fails at once. The summary is JSON on stdout.

It ends with status 0; 1 if lines failed; 2 for a mistake in flags or files; 3 if nothing can ever fit
the quota; 4 if the money is used up, that of --max-cost or the provider's; 130 or 143 after Ctrl-C or
SIGTERM, once the calls that were sent have ended. A second signal ends it at once.`

const batchExample = `  # what would it take? tokens, dollars and minutes
  ratelimit batch in.jsonl --upstream https://api.openai.com --profile openai/tier1 --dry-run

  # at most 500 requests and 30,000 tokens a minute, and five dollars
  ratelimit batch in.jsonl -o out.jsonl --errors failed.jsonl \
    --upstream https://api.openai.com --rpm 500 --tpm 30000 --max-cost 5`

func newBatch() *cobra.Command {
	f := &batchFlags{}
	cmd := &cobra.Command{
		Use:     "batch IN -o OUT",
		Short:   "Send the lines of a file inside the quota, each once, and go on after a stop",
		Long:    batchLong,
		Example: batchExample,
		Args: func(cmd *cobra.Command, arguments []string) error {
			if len(arguments) != 1 {
				return usagef("batch: want one file of lines, or - for stdin")
			}
			f.in = arguments[0]
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.out, "out", "o", "", "`file` of the answers, which is gone on with; - for stdout, without that")
	flags.StringVar(&f.errors, "errors", "", "`file` of the lines that fail, written anew by each run")
	flags.StringVar(&f.upstream, "upstream", "", "`URL` of the provider; NAME=URL counts models as NAME/model;\nNAME is one of --config")
	flags.StringVar(&f.keyEnv, "key-env", "", "`variable` with the key (default that of the provider's SDK)")
	flags.StringVar(&f.url, "url", "", "`path` of lines that are bodies alone, such as /v1/chat/completions")
	f.quota.addFlags(flags)
	f.shared.addFlags(flags)
	flags.StringVar(&f.class, "as-class", "batch", "`class` of the calls")
	flags.BoolVar(&f.ordered, "ordered", false, "write answers in the order of IN")
	flags.IntVar(&f.limit, "limit", 0, "take at most so many `lines`")
	flags.IntVar(&f.maxAttempts, "max-attempts", 5, "`times` that a line is tried")
	flags.StringVar(&f.maxCost, "max-cost", "", "`dollars` that OUT may cost, with all runs")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Minute, "longest time of a call, once it is sent")
	flags.BoolVar(&f.failFast, "fail-fast", false, "end at the first line that fails")
	flags.BoolVar(&f.fresh, "fresh", false, "begin anew; an OUT that is there gets another name")
	flags.BoolVar(&f.dryRun, "dry-run", false, "send nothing: tell tokens, dollars and minutes")
	flags.IntVar(&f.expectOutput, "expect-output", 0, "`tokens` of an answer, as far as none is known (default 256)")
	flags.StringVar(&f.progress, "progress", "auto", "`form` on stderr: auto, plain, json or none")
	return cmd
}

// check refuses flags that cannot be.
func (f *batchFlags) check() error {
	switch {
	case f.out == "" && !f.dryRun:
		return usagef("batch: where should answers go? -o FILE, or -o - for stdout")
	case f.limit < 0 || f.expectOutput < 0:
		return usagef("--limit and --expect-output: must not be negative")
	case f.maxAttempts <= 0 || f.timeout <= 0:
		return usagef("--max-attempts and --timeout: must be positive")
	case f.out == f.in && f.in != "-" || f.errors != "" && (f.errors == f.in || f.errors == f.out):
		return usagef("IN, OUT and --errors are three files")
	}
	if f.url != "" {
		if err := batch.CheckPath(f.url); err != nil {
			return usagef("--url: %w", err)
		}
	}
	if f.maxCost != "" {
		var err error
		if f.budget, err = money.Parse(f.maxCost); err != nil || f.budget <= 0 {
			return usagef("--max-cost %s: want dollars, such as 5 or 12.50", f.maxCost)
		}
	}
	switch f.progress {
	case "auto", "plain", "json", "none":
		return nil
	}
	return usagef("--progress %s: want auto, plain, json or none", f.progress)
}

// run runs the batch, or plans it.
func (f *batchFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	to, err := f.target(log)
	if err != nil {
		return err
	}
	in, err := batch.OpenInput(f.in, cmd.InOrStdin())
	if err != nil {
		return usagef("batch: %w", err)
	}
	defer in.Close()
	if in.Is(f.out) || in.Is(f.errors) || sameFile(f.out, f.errors) {
		return usagef("IN, OUT and --errors are three files")
	}
	out, err := f.output(cmd.OutOrStdout())
	if err != nil {
		return usagef("%s: %w", f.out, err)
	}
	defer out.Close()
	settings := batch.Settings{
		Input: in, Output: out, Upstream: to.upstream.URL, NoRefund: to.upstream.NoRefund, Path: f.url, Counted: to.counted, Class: f.class,
		Ordered: f.ordered, FailFast: f.failFast, Limit: f.limit, MaxAttempts: f.maxAttempts, MaxCost: f.budget,
		Timeout: f.timeout, ExpectOutput: f.expectOutput, Base: batchBase(),
	}
	if f.errors != "" && !f.dryRun {
		file := &lateFile{path: f.errors}
		defer file.Close()
		settings.Errors = file
	}
	b, err := batch.New(settings)
	if err != nil {
		if bad := (*batch.InputError)(nil); errors.As(err, &bad) {
			return usagef("%s: %w", f.in, err)
		}
		return err
	}
	defer b.Close() //nolint:errcheck // of memory
	if f.dryRun {
		return f.plan(cmd, b, to)
	}
	return f.send(cmd, b, to, log)
}

// sameFile reports whether two paths lead to one file that is there.
func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// output opens OUT.
func (f *batchFlags) output(stdout io.Writer) (*batch.Output, error) {
	switch {
	case f.out == "-" || f.out == "":
		return batch.Stdout(stdout), nil
	case f.dryRun:
		return batch.ReadOutput(f.out, f.fresh)
	}
	return batch.OpenOutput(f.out, f.fresh)
}

// plan tells what the run would take. It leaves the shared quota alone.
func (f *batchFlags) plan(cmd *cobra.Command, b *batch.Batch, to *batchTarget) error {
	to.config.Backend, to.config.FilePath, to.config.Shared, to.config.Store = "", "", false, nil
	to.config.AutoPersist = ratelimit.AutoPersist{}
	limiter, err := to.limiter(to.config)
	if err != nil {
		return err
	}
	defer limiter.Close()
	b.Use(limiter, "")
	p, err := b.Plan(cmd.Context())
	if err != nil {
		return err
	}
	if f.progress != "none" {
		fmt.Fprintf(cmd.ErrOrStderr(), "%d of %d lines to send: %d prompt and %d output tokens, $%.4f, %.1f minutes\n",
			p.ToDo, p.Lines, p.Tokens.Prompt, p.Tokens.Output, p.Dollars, p.Minutes)
		for _, model := range p.Unlimited {
			fmt.Fprintf(cmd.ErrOrStderr(), "no quota of requests or tokens limits the model %q: its lines take no minutes here\n", model)
		}
	}
	if err := json.NewEncoder(cmd.OutOrStdout()).Encode(p); err != nil {
		return err
	}
	if p.NeverFits > 0 && p.ToDo+p.Before+p.BadLines == 0 {
		return neverFits(p.NeverFits)
	}
	return nil
}

// neverFits is the end of a batch of which no line fits the quota.
func neverFits(lines int) error {
	return statusError{exitNever, fmt.Errorf("all %d lines are larger than the quota", lines)}
}

// send runs the batch until it has ended, or a signal comes and the calls that were sent have.
func (f *batchFlags) send(cmd *cobra.Command, b *batch.Batch, to *batchTarget, log *slog.Logger) error {
	key, err := f.key(b, to)
	if err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	var caught atomic.Int32
	defer onSignal(func(s syscall.Signal) {
		caught.Store(int32(s))
		cancel()
		fmt.Fprintln(stderr, "ratelimit: stopping; what is sent comes to its end")
	})()
	to.config.Events = batch.Costs{}
	if to.config.Margin == 0 && b.WasKilled() {
		to.config.Margin = killMargin
	}
	to.config.OnError = func(err error) { log.Warn(err.Error()) }
	closeStore, err := f.shared.configure(ctx, &to.config)
	if err != nil {
		return err
	}
	defer closeStore()
	limiter, err := to.limiter(to.config)
	if err != nil {
		return err
	}
	b.Use(limiter, key)
	end := batch.Show(cmd.ErrOrStderr(), f.form(cmd.ErrOrStderr()), b.Status)
	summary, err := b.Run(ctx)
	end()
	err = errors.Join(err, limiter.Close())
	summaryTo := cmd.OutOrStdout()
	if f.out == "-" {
		summaryTo = cmd.ErrOrStderr()
	}
	return errors.Join(err, json.NewEncoder(summaryTo).Encode(summary), f.verdict(summary, int(caught.Load())))
}

// key returns the key of the upstream. A program of this machine may need none.
func (f *batchFlags) key(b *batch.Batch, to *batchTarget) (string, error) {
	variable, said := f.keyEnv, true
	if variable == "" {
		variable = to.keyEnv
	}
	if variable == "" {
		variable, said = b.KeyVariable(), to.upstream.URL.Scheme == "https"
	}
	key := strings.TrimSpace(os.Getenv(variable))
	switch {
	case key == "" && said:
		return "", usagef("--key-env: the variable %s is empty", variable)
	case strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }):
		return "", usagef("--key-env: the variable %s has a character that no key has", variable)
	}
	return key, nil
}

// form returns how progress is shown.
func (f *batchFlags) form(stderr io.Writer) batch.Form {
	if f.progress != "auto" {
		return batch.Form(f.progress)
	}
	if terminal.Shows(stderr) {
		return batch.Live
	}
	return batch.Plain
}

// verdict returns the status with which a run ends, and why.
func (f *batchFlags) verdict(s batch.Summary, signal int) error {
	switch {
	case s.Stopped == batch.StoppedBySignal && s.Left > 0:
		return statusError{exitBySignal + signal, fmt.Errorf("stopped: %d lines are left for the next run", s.Left)}
	case s.Stopped == batch.StoppedByBudget:
		return statusError{exitBudget, fmt.Errorf("the money is used up: %d lines are left", s.Left)}
	case s.Failed == 0:
		return nil
	case s.NeverFits == s.Failed && s.Done+s.Before == 0:
		return neverFits(s.Failed)
	}
	why := make([]string, 0, len(s.Failures))
	for _, code := range slices.Sorted(maps.Keys(s.Failures)) {
		why = append(why, fmt.Sprintf("%s %d", code, s.Failures[code]))
	}
	where := ""
	if f.errors != "" {
		where = ": " + f.errors
	}
	return statusError{exitFailure, fmt.Errorf("%d lines failed (%s)%s", s.Failed, strings.Join(why, ", "), where)}
}

// batchBase returns what sends the calls of a batch.
func batchBase() *http.Transport {
	base := http.DefaultTransport.(*http.Transport).Clone()
	base.MaxIdleConns, base.MaxIdleConnsPerHost = 0, 1024
	return base
}

// lateFile is made, or emptied, with the first write, or at the end.
type lateFile struct {
	path string
	file *os.File
}

// Write writes to the file.
func (l *lateFile) Write(p []byte) (int, error) {
	if l.file == nil {
		var err error
		if l.file, err = os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600); err != nil {
			return 0, err
		}
	}
	return l.file.Write(p)
}

// Close closes the file.
func (l *lateFile) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
