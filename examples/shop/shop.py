"""A shop over HTTP with FastAPI: reserve, pay, give back, stand in line, buy a cart. Every request may be sent again."""

import os

import redis.asyncio
from fastapi import FastAPI
from fastapi.responses import JSONResponse
from lockstock import AsyncStock, NoSale, SaleExists, Unreachable

# A status that is not here is a refusal: 409.
CODES = {"OK": 200, "DUPLICATE": 200, "QUEUED": 202, "NOORDER": 404, "NOSTOCK": 404, "EXPIRED": 410, "CANCELLED": 410}

shop = FastAPI()
stock = AsyncStock(redis.asyncio.Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost")))


def answer(status, **more):
    return JSONResponse({"status": status, **more}, CODES.get(status, 409))


def told(outcome):
    return answer(outcome.status, units=outcome.units, remaining=outcome.remaining)


@shop.exception_handler(NoSale)
async def no_sale(request, error):
    return answer("NOSTOCK")


@shop.exception_handler(SaleExists)
async def exists(request, error):
    return answer("EXISTS")


@shop.exception_handler(Unreachable)
async def unreachable(request, error):
    return JSONResponse({"status": "UNKNOWN"}, 503)  # send it again


@shop.put("/sales/{sale}")
async def offer(sale: str, total: int):
    await stock.create(sale, total, stream=f"events:{sale}", deadlines=True)  # for lockstock-outbox
    return answer("OK")


@shop.put("/sales/{sale}/orders/{order}")
async def reserve(sale: str, order: str, buyer: str, hold: float = 600, waitlist: bool = False):
    return told(await stock.order(sale, order, buyer=buyer, hold=hold, waitlist=waitlist))


@shop.post("/sales/{sale}/orders/{order}/payment")
async def pay(sale: str, order: str):
    return told(await stock.confirm(sale, order))  # EXPIRED: refund it


@shop.delete("/sales/{sale}/orders/{order}")
async def give_back(sale: str, order: str):
    return told(await stock.cancel(sale, order))


@shop.get("/sales/{sale}/orders/{order}")
async def look(sale: str, order: str):
    found = await stock.look(sale, order)
    return answer("OK", state=found.state, place=found.place) if found else answer("NOORDER")


@shop.put("/carts/{order}")
async def cart(order: str, buyer: str, sales: dict[str, int]):
    taken = await stock.order_all(order, sales, buyer=buyer, hold=600)
    return answer(taken.status, sales={sale: leg.status for sale, leg in taken.sales.items()})
