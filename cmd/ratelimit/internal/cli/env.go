package cli

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// environment is the flags of "ratelimit env".
type environment struct {
	listen   string
	upstream string
	shell    string
}

func newEnv() *cobra.Command {
	e := &environment{}
	command := &cobra.Command{
		Use:   "env [NAME]",
		Short: "Print the lines that make a client use the proxy",
		Long: `env prints the lines that make a client send its calls to the proxy: for a shell, or for
the file that the client reads. Without a name it lists the clients. Keys stay where they
are: the proxy passes them on.

A client that speaks to several providers gets the lines of each; take those of the provider
behind your proxy, or name it with --upstream.`,
		Example: `  ratelimit env
  ratelimit env claude
  ratelimit env codex --upstream openai
  ratelimit env openai-python --listen 127.0.0.1:9000 --shell fish`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: completeClients,
		RunE: func(command *cobra.Command, arguments []string) error {
			return e.run(command.OutOrStdout(), arguments)
		},
	}
	command.Flags().StringVar(&e.listen, "listen", "127.0.0.1:8787", "`address` or URL of the proxy")
	command.Flags().StringVar(&e.upstream, "upstream", "", "`name` of the upstream, of a proxy that has several")
	command.Flags().StringVar(&e.shell, "shell", defaultShell(runtime.GOOS), "sh, fish or powershell")
	return command
}

func defaultShell(system string) string {
	if system == "windows" {
		return "powershell"
	}
	return "sh"
}

// clients returns all clients, in the order in which they are listed.
func clients() []client { return slices.Concat(agents, libraries) }

func completeClients(_ *cobra.Command, arguments []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if len(arguments) == 0 {
		for _, c := range clients() {
			names = append(names, cobra.CompletionWithDesc(c.name, c.about))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

func (e *environment) run(out io.Writer, arguments []string) error {
	all := clients()
	if len(arguments) == 0 {
		return listClients(out, all)
	}
	if len(arguments) > 1 {
		return usagef("env: want one name, got %d", len(arguments))
	}
	at := slices.IndexFunc(all, func(c client) bool { return c.name == arguments[0] })
	if at < 0 {
		var names []string
		for _, c := range all {
			names = append(names, c.name)
		}
		return usagef("env: no client is named %q: there are %s", arguments[0], strings.Join(names, ", "))
	}
	base, err := e.baseURL()
	if err != nil {
		return err
	}
	syntax, ok := shells[e.shell]
	if !ok {
		return usagef("--shell: want sh, fish or powershell, not %q", e.shell)
	}
	_, err = io.WriteString(out, all[at].lines(base, e.upstream, syntax))
	return err
}

func listClients(out io.Writer, all []client) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range all {
		fmt.Fprintf(table, "%s\t%s\n", c.name, c.about)
	}
	return table.Flush()
}

// upstreamName is what may stand before the equals sign of "ratelimit proxy --upstream".
var upstreamName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// baseURL returns where clients reach the upstream, without a path of the provider's API.
func (e *environment) baseURL() (string, error) {
	base := e.listen
	if !strings.Contains(base, "://") {
		host, port, err := net.SplitHostPort(base)
		if err != nil {
			return "", usagef("--listen: want an address such as 127.0.0.1:8787: %w", err)
		}
		if host == "" || net.ParseIP(host).IsUnspecified() {
			host = "127.0.0.1"
		}
		base = "http://" + net.JoinHostPort(host, port)
	}
	u, err := url.Parse(strings.TrimSuffix(base, "/"))
	if err != nil || u.Host == "" || u.RawQuery != "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", usagef("--listen: want an address such as 127.0.0.1:8787, or a URL, not %q", e.listen)
	}
	if e.upstream == "" {
		return u.String(), nil
	}
	if !upstreamName.MatchString(e.upstream) {
		return "", usagef("--upstream: want the name of an upstream, not %q", e.upstream)
	}
	return u.String() + "/" + e.upstream, nil
}

// lines returns what makes the client use an upstream at the base URL. An upstream that is named
// after a provider gets the lines of that provider alone.
func (c client) lines(base, upstream string, shell syntax) string {
	ways := slices.DeleteFunc(slices.Clone(c.ways), func(w way) bool { return w.provider != upstream })
	if len(ways) == 0 {
		ways = c.ways
	}
	several := slices.ContainsFunc(ways, func(w way) bool { return w.provider != ways[0].provider })
	var text strings.Builder
	for i, w := range ways {
		if i > 0 {
			text.WriteByte('\n')
		}
		if several {
			fmt.Fprintf(&text, "# For a proxy of %s:\n", providerTitles[w.provider])
		}
		text.WriteString(w.lines(base, shell))
	}
	return text.String()
}

var providerTitles = map[string]string{openai: "OpenAI", anthropic: "Anthropic", gemini: "Gemini"}

var keyPattern = regexp.MustCompile(`\{key:(\w+)\}`)

func (w way) lines(base string, shell syntax) string {
	fill := func(text string) string {
		text = strings.ReplaceAll(text, "{url}", base)
		return keyPattern.ReplaceAllStringFunc(text, func(key string) string {
			return shell.read(keyPattern.FindStringSubmatch(key)[1])
		})
	}
	var text strings.Builder
	if w.file != "" {
		fmt.Fprintf(&text, "# In %s:\n", w.file)
	}
	for _, v := range w.vars {
		fmt.Fprintln(&text, shell.set(v.name, fill(v.value)))
	}
	if w.text != "" {
		fmt.Fprintln(&text, fill(w.text))
	}
	if w.code != "" {
		for line := range strings.Lines(fill(w.code) + "\n") {
			text.WriteString("# or: " + line)
		}
	}
	return text.String()
}

// syntax is how a shell sets an environment variable, and reads it.
type syntax struct {
	set  func(name, value string) string
	read func(name string) string
}

var shells = map[string]syntax{
	"sh": {
		set:  func(name, value string) string { return "export " + name + "=" + quoted(value) },
		read: func(name string) string { return "$" + name },
	},
	"fish": {
		set:  func(name, value string) string { return "set -gx " + name + " " + quoted(value) },
		read: func(name string) string { return "$" + name },
	},
	"powershell": {
		set:  func(name, value string) string { return "$env:" + name + " = '" + value + "'" },
		read: func(name string) string { return "$env:" + name },
	},
}

var plain = regexp.MustCompile(`^[A-Za-z0-9:/._-]*$`)

// quoted returns a value as one word of a shell. A URL has no quotation mark.
func quoted(value string) string {
	if plain.MatchString(value) {
		return value
	}
	return "'" + value + "'"
}
