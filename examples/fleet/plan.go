package main

import (
	"context"
	"time"
)

// plan is when the machines are disturbed, from the start of the run.
type plan struct {
	kill, again time.Duration // of one machine
	lose, empty time.Duration // of Redis: it is killed, and started again
	end         time.Duration
}

// newPlan returns the plan of a run of some length: the machine is away for 3 seconds of 72, and
// Redis for 2.
func newPlan(length time.Duration) plan {
	return plan{
		kill: length / 3, again: length/3 + min(length/24, 3*time.Second),
		lose: length / 2, empty: length/2 + min(length/36, 2*time.Second),
		end: length,
	}
}

// step is something that the program does at a time from the start of the run.
type step struct {
	at time.Duration
	do func()
}

// steps returns the plan as steps, in their order.
func (f *fleet) steps() []step {
	steps := []step{{f.plan.kill, f.killMachine}, {f.plan.again, f.restartMachine}}
	if f.own != nil {
		steps = append(steps, step{f.plan.lose, f.killRedis}, step{f.plan.empty, f.restartRedis})
	}
	return append(steps, step{f.plan.end, f.end})
}

func (f *fleet) killMachine() {
	if f.ending {
		return
	}
	t := &f.tallies[victim]
	t.killed = time.Now()
	f.tell("machine %d is killed (kill -9) in the middle of %d calls", victim, t.open())
	f.check(f.crew.kill(victim))
}

func (f *fleet) restartMachine() {
	if f.ending {
		return
	}
	f.tallies[victim].again = time.Now()
	f.tell("machine %d is started again", victim)
	f.start(victim)
}

func (f *fleet) killRedis() {
	if f.ending {
		return
	}
	f.loss.at = time.Now()
	f.own.kill()
	f.tell("Redis is killed, and all that it held is gone")
}

func (f *fleet) restartRedis() {
	if f.ending {
		return
	}
	f.check(f.own.start(context.Background()))
	f.loss.empty = time.Now()
	f.tell("Redis is started again, empty")
}
