package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/child"
)

func newRun() *cobra.Command {
	var f waitFlags
	c := &cobra.Command{
		Use:   "run MODEL [flags] -- COMMAND [ARGUMENT...]",
		Short: "Wait for room in the shared quota, and run a command",
		Long: `run waits in line until a call of the model fits the shared quota, charges it, and runs the
command with the input, the output and the signals of this program. The charge stays as it was
estimated by --tokens and --output, also when the command fails. Of a run that is killed the
command goes on, and its place among the calls in flight is free at once.
` + waitHelp + `

It ends with the status of the command, which is 128 and its number for a signal, or with

` + waitStatuses + `
  125  the quota cannot be used
  126  the command cannot be executed; nothing is charged
  127  there is no such command; nothing is charged`,
		Example: `  ratelimit run gpt-4o --rpm 30 --tokens 2000 -- echo one call
  ratelimit run gpt-4o --tokens 900 --output 100 --timeout 1m --class batch -- sh -c 'echo another'`,
		Args: func(c *cobra.Command, args []string) error {
			if c.ArgsLenAtDash() != 1 || len(args) < 2 {
				return usagef("run: want a model and, behind --, a command: ratelimit run MODEL -- COMMAND")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			f.call.Model, f.call.Bounded = args[0], c.Flags().Changed("timeout")
			return ownStatus(f.run(c.Context(), args[1:], c.ErrOrStderr()))
		},
	}
	f.addFlags(c.Flags(), true)
	return c
}

// ownStatus gives a failure of the program itself a status that tells it from one of the command.
func ownStatus(err error) error {
	if err == nil || errors.As(err, &statusError{}) || errors.As(err, &usageError{}) {
		return err
	}
	return statusError{exitOwn, err}
}

// run runs a command once there is room for it.
func (f *waitFlags) run(ctx context.Context, command []string, stderr io.Writer) error {
	signals := child.Catch()
	defer signals.Stop()
	path, err := child.Find(command[0])
	if err != nil {
		return notRun(err)
	}
	limiter, closeAll, err := f.open(ctx, stderr)
	if err != nil {
		return err
	}
	var charged *ratelimit.Reservation
	err = signals.Wait(ctx, func(ctx context.Context) (err error) {
		charged, err = f.call.Wait(ctx, limiter, true)
		return err
	})
	if err != nil {
		charged.Cancel()
		closeAll() //nolint:errcheck // nothing was charged
		return f.statusOf(err)
	}
	c := child.Command{Path: path, Name: command[0], Arguments: command[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	status, err := c.Run(signals)
	if missing := (*child.Error)(nil); errors.As(err, &missing) {
		charged.Cancel()
	} else {
		charged.Commit(f.call.PromptTokens, f.call.OutputTokens)
	}
	if failed := closeAll(); failed != nil { // the status stays that of the command
		fmt.Fprintf(stderr, "ratelimit: warning: the call was not settled: %v\n", failed)
	}
	if err != nil {
		return notRun(err)
	}
	return statusError{status: status}
}

// notRun gives the error of a command that was not run its status.
func notRun(err error) error {
	if is := (*child.Error)(nil); errors.As(err, &is) {
		return statusError{is.Status, err}
	}
	return err
}
