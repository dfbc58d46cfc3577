def calc(amount):
    return amount * 3
