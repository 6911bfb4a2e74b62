// Package cli is the commands of the program ratelimit: their flags, their help, and what they
// print.
package cli

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// The statuses with which the program ends.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2 // of flags, arguments or files that say what cannot be
	exitNever   = 3 // no wait helps: a call is larger than its quota
	exitBudget  = 4 // the money of the day or the month is spent
	exitTimeout = 75
	exitOwn     = 125 // of a program that runs another, and failed itself, as env(1)

	exitBySignal = 128 // and the number of the signal
)

// statusError ends the program with a status that is not told by the kind of its mistake. Without
// an error there is nothing to tell.
type statusError struct {
	status int
	error
}

func (e statusError) Unwrap() error { return e.error }

// usageError is a mistake of the one who called the program.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usagef returns a mistake of the one who called the program.
func usagef(format string, arguments ...any) error {
	return usageError{fmt.Errorf(format, arguments...)}
}

// Run runs the program with its arguments, and returns the status with which it ends. Only results
// go to stdout; what a person is told goes to stderr.
func Run(arguments []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(arguments)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.Execute()
	if err == nil {
		return exitOK
	}
	said := statusError{}
	isSaid := errors.As(err, &said)
	if !isSaid || said.error != nil {
		fmt.Fprintf(stderr, "ratelimit: %v\n", err)
	}
	if isSaid {
		return said.status
	}
	if usage := (usageError{}); errors.As(err, &usage) {
		return exitUsage
	}
	return exitFailure
}

// ofStrconv is what a reader of a flag's error need not know.
var ofStrconv = regexp.MustCompile(`strconv\.\w+: parsing "[^"]*": |time: `)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "ratelimit",
		Short: "Keep the calls of any program inside the quotas of LLM providers",
		Long: `ratelimit keeps requests, tokens and money of calls to large language models inside
the quotas of their providers, exactly, for all programs of a machine together.`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return usagef("%s", ofStrconv.ReplaceAllString(err.Error(), ""))
	})
	root.Example = rootExamples
	root.SuggestionsMinimumDistance = 2
	root.Args = func(root *cobra.Command, arguments []string) error {
		if len(arguments) == 0 {
			return nil
		}
		hint := "ratelimit --help lists them"
		if near := root.SuggestionsFor(arguments[0]); len(near) > 0 {
			hint = "did you mean " + strings.Join(near, " or ") + "?"
		}
		return usagef("no command is named %q: %s", arguments[0], hint)
	}
	root.RunE = func(root *cobra.Command, _ []string) error { return root.Help() }
	root.AddCommand(newProxy())
	root.AddCommand(newBatch())
	root.AddCommand(newStatus())
	root.AddCommand(newRun(), newWait())
	root.AddCommand(newQuota(), newCooldown(), newReset(), newDoctor())
	root.AddCommand(newEnv())
	addVersion(root)
	addCompletion(root)
	return root
}
