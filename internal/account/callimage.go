package account

import (
	"math"

	"dappco.re/go/core/go-ratelimit/internal/wire"
	"dappco.re/go/core/go-ratelimit/money"
)

// Accounts are those that the calls of an image charge, by their places in it.
type Accounts struct {
	All   []*Account
	At    map[*Account]int
	Other *Account // whose spend is that of the models for which there is no room
}

// The bits of a charge in an image.
const (
	chargeOfClass   = 1 << iota // it is to the class of the call
	chargeForgotten             // by its meter
	chargeToday
	chargePrepaid
	chargePays      // it has a payer: the account,
	chargePaysOther // or the other one
	chargeRequest   // its request is in the window,
	chargeTokens    // and its tokens
	chargeAll       = 1<<iota - 1
)

const (
	callCounted = 1 << iota // it has a model
	callArrived
	callAll = 1<<iota - 1
)

// AppendImage appends an open call as bytes. Its accounts must have been pruned at the last moment.
func (c *Call) AppendImage(to []byte, among *Accounts, last Now) []byte {
	to = wire.AppendInt(wire.AppendInt(to, c.ID.Process), c.ID.N)
	to = wire.AppendUint(to, uint64(c.ID.Place))
	to = wire.AppendString(wire.AppendString(to, c.Asked), c.Class)
	to = wire.AppendUint(appendCount(to, c.Tokens), uint64(c.Most))
	to = wire.AppendUint(to, uint64(last.Instant-c.At.Instant))
	to = wire.AppendInt(to, c.At.Wall-last.WallAt(c.At.Instant))
	to = wire.AppendUint(to, uint64(c.Delay))
	hold := uint64(0)
	if c.HoldUntil != 0 {
		hold = uint64(c.HoldUntil - last.Instant)
	}
	to = wire.AppendUint(to, hold)
	flags := uint64(0)
	if c.Model != nil {
		flags |= callCounted
	}
	if c.Arrived {
		flags |= callArrived
	}
	to = wire.AppendUint(wire.AppendUint(to, flags), uint64(len(c.Charges)))
	for i := range c.Charges {
		to = c.Charges[i].appendImage(to, c, among)
	}
	return to
}

func (c *Charge) appendImage(to []byte, call *Call, among *Accounts) []byte {
	m := c.Meter
	a := m.day.of
	request, token := c.requestAt() >= 0, c.tokenAt() >= 0
	var flags uint64
	for i, is := range [...]bool{
		m != &a.Meter, !c.isKnown(), c.isToday(), c.isPrepaid(), c.Payer == a, c.Payer != nil && c.Payer != a, request, token,
	} {
		if is {
			flags |= 1 << i
		}
	}
	to = wire.AppendUint(wire.AppendUint(to, uint64(among.At[a])), flags)
	to = wire.AppendUint(to, uint64(c.At-call.At.Instant))
	if request {
		to = wire.AppendInt(to, int64(int32(c.request-m.requests.Place(0))))
	}
	if token {
		to = wire.AppendInt(to, int64(int32(c.token-m.tokens.Place(0))))
	}
	return to
}

// longest bounds how long ago a call was admitted, so that no difference of instants overflows.
const longest = int64(3) << 61

// ReadCall reads the image of an open call into an empty one.
func ReadCall(r *wire.Reader, c *Call, among *Accounts, last Now) {
	c.ID = ID{Process: r.Int(), N: r.Int(), Place: int32(r.UpTo(math.MaxInt32))}
	c.Asked, c.Class = readText(r), readText(r)
	c.Tokens, c.Most = readCount(r), money.Amount(r.UpTo(math.MaxInt64))
	c.At.Instant = last.Instant - int64(r.UpTo(uint64(longest)))
	c.At.Wall = last.WallAt(c.At.Instant) + r.Int()
	c.Delay = int64(r.UpTo(uint64(longest)))
	if hold := r.UpTo(uint64(math.MaxInt64 - last.Instant)); hold != 0 {
		c.HoldUntil = last.Instant + int64(hold)
	}
	flags := r.UpTo(callAll)
	c.Arrived = flags&callArrived != 0
	n := r.Count(math.MaxInt, 3)
	for i := 0; i < n && r.Err() == nil; i++ {
		c.next().read(r, c, among)
	}
	if flags&callCounted == 0 || r.Err() != nil {
		return
	}
	if n == 0 || c.Charges[0].Account() == nil {
		r.Fail("call without the charge to its model")
		return
	}
	c.Model = c.Charges[0].Account()
}

func (c *Charge) read(r *wire.Reader, call *Call, among *Accounts) {
	at := r.UpTo(uint64(max(len(among.All)-1, 0)))
	flags := r.UpTo(chargeAll)
	if len(among.All) == 0 {
		r.Fail("charge without an account")
	}
	if r.Err() != nil {
		return
	}
	a := among.All[at]
	m := &a.Meter
	forgotten := flags&chargeForgotten != 0
	if flags&chargeOfClass != 0 {
		u := a.UseOf(call.Class)
		if u == nil {
			r.Fail("charge to a class that has none")
			return
		}
		m = &u.Meter
	}
	*c = Charge{Meter: m, Tokens: call.Tokens, epoch: m.epoch, days: m.day.serial - 1}
	c.At = call.At.Instant + int64(r.UpTo(uint64(longest)))
	m.InFlight++
	if forgotten {
		c.epoch--
	}
	if flags&chargeToday != 0 {
		c.days = m.day.serial
	}
	if c.isToday() != (flags&chargeToday != 0) || flags&chargePays != 0 && flags&chargePaysOther != 0 {
		r.Fail("charge that contradicts itself")
	}
	switch {
	case flags&chargePays != 0:
		c.Payer = a
	case flags&chargePaysOther != 0:
		c.Payer = among.Other
	}
	if c.Payer != nil && c.Payer.Spend == nil {
		r.Fail("payer that spends nothing")
	}
	if c.prepaid = nil; flags&chargePrepaid != 0 {
		if c.prepaid = m.pace; m.pace == nil {
			r.Fail("charge that is prepaid to no bucket")
		}
	}
	c.request, c.token = m.requests.Place(-1), m.tokens.Place(-1)
	if flags&chargeRequest != 0 {
		c.request = uint32(int32(r.Within(math.MinInt32, math.MaxInt32))) + m.requests.Place(0)
	}
	if flags&chargeTokens != 0 {
		c.token = uint32(int32(r.Within(math.MinInt32, math.MaxInt32))) + m.tokens.Place(0)
	}
	if (c.requestAt() >= 0) != (flags&chargeRequest != 0) || (c.tokenAt() >= 0) != (flags&chargeTokens != 0) {
		r.Fail("charge that its account has not")
	}
}
